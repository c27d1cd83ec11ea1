// Judges notes and proofs with Go's own packages: one request a line, "true" or "false" for each.
package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func hash(text string) tlog.Hash {
	var h tlog.Hash
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) != len(h) {
		panic("not a hash: " + text)
	}
	copy(h[:], data)
	return h
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func proof(words []string) []tlog.Hash {
	var p []tlog.Hash
	for _, word := range words {
		p = append(p, hash(word))
	}
	return p
}

func judge(words []string) bool {
	switch words[0] {
	case "note": // key, base64 of the note
		verifier, err := note.NewVerifier(words[1])
		if err != nil {
			return false
		}
		data, _ := base64.StdEncoding.DecodeString(words[2])
		_, err = note.Open(data, note.VerifierList(verifier))
		return err == nil
	case "inclusion": // size, root, index, leaf, path…
		return tlog.CheckRecord(proof(words[5:]), number(words[1]), hash(words[2]), number(words[3]), hash(words[4])) == nil
	case "consistency": // new size, new root, old size, old root, path…
		return tlog.CheckTree(proof(words[5:]), number(words[1]), hash(words[2]), number(words[3]), hash(words[4])) == nil
	case "leaf": // base64 of the entry, its hash
		data, _ := base64.StdEncoding.DecodeString(words[1])
		return tlog.RecordHash(data) == hash(words[2])
	}
	panic(words[0])
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fmt.Println(judge(strings.Fields(lines.Text())))
	}
}

// How search weighs what it finds: as Sphinx does, but decisions of the past stand behind the pages of today.
var Scorer = {
  score: ([page, , , , points]) => (page.startsWith("adr/") ? points - 20 : points),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

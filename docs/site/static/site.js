// What scrolls sideways can be reached and scrolled with the keyboard.
const reach = () => {
  for (const part of document.querySelectorAll("article pre, article .table-wrapper")) {
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
  }
};
addEventListener("load", reach);
addEventListener("resize", reach);

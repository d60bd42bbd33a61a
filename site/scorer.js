"use strict";

// A message is in the lesson that shows it, in the index of faults, and on the page of its fault: that one comes first.
var Scorer = {
  score: ([docname, title, anchor, description, score]) =>
    docname.startsWith("faults/") && docname !== "faults/index" ? score + 20 : score,
  // The rest is what Sphinx takes by default.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

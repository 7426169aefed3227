// Scores under the slider's axis.

function makeScores() {
  fill($("panel"), el("p", { class: "note", id: "panel-note" }), el("div", { id: "charts" }));
}

function drawScores() {
  $("panel-note").textContent = page.scores ? "" : "No scores: the ledger has no measurements, or the page was made without them.";
}

function scoreRows() {
  return [["day"]];
}

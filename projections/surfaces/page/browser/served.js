// A served page follows its ledger; a page in a file asks nobody.

const ASK_MS = 2_000;

/** Ask now and then whether the ledger has grown, and load the page again where it has. */
async function follow() {
  if (document.hidden) return;
  try {
    const answer = await fetch("head", { cache: "no-store" });
    if (!answer.ok) throw new Error(answer.statusText);
    const { head, last_redaction: redaction } = await answer.json();
    const isRedacted = redaction > META.counts.events;
    if (head === META.head) warn(META.warnings || []);
    // Who plays the film or writes into a dialog is not interrupted, unless a text must leave the screen.
    else if (isRedacted || !(playing || document.querySelector("dialog[open]"))) reload(isRedacted);
  } catch {
    warn(["The server of this page has ended: the page stays as it was made."]);
  }
}

/** Load the page again: at its end it shows the new end, elsewhere the same moment. */
function reload(isRedacted) {
  if (isRedacted) warn(["Texts were redacted since this page was made; it is loaded again."]);
  const fragment = view.event === page.history.events ? route().replace(/event=\d+&?/, "") : route();
  history.replaceState(null, "", fragment);
  location.reload();
}

function warn(warnings) {
  $("warning").hidden = !warnings.length;
  const text = warnings.join(" ");
  if ($("warning").textContent !== text) $("warning").textContent = text;
}

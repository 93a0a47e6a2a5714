// Updates the page: requests it again and changes only what differs, so that scroll position, focus, open details and
// typed text stay. Without this script the page reloads every ten seconds.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const main = document.getElementById("main");
  const lost = document.getElementById("lost");
  document.documentElement.classList.add("js");

  // --- updating the document -----------------------------------------------------------------------------

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.getAttribute("data-key") || "" : "";
  const sameKind = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  const update = (old, fresh) => {
    if (old.nodeType !== 1) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.hasAttribute("data-keep")) return;
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    updateChildren(old, fresh);
  };

  const updateChildren = (old, fresh) => {
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const known = keyOf(wanted) ? keyed.get(keyOf(wanted)) : null;
      if (known && sameKind(known, wanted)) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        update(known, wanted);
      } else if (at && !keyOf(at) && sameKind(at, wanted)) {
        const here = at;
        at = at.nextSibling;
        update(here, wanted);
      } else {
        old.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at) {
      const removed = at;
      at = at.nextSibling;
      removed.remove();
    }
  };

  // --- requesting the page again -------------------------------------------------------------------------------------------

  let answeredAt = Date.now();
  let ahead = 0;
  let pending = null;
  let timer = 0;

  const clock = () => {
    const asOf = document.getElementById("as-of");
    ahead = Number(asOf.dataset.now) - Date.now();
    answeredAt = Date.now();
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (pending) pending.abort();
    const mine = pending = new AbortController();
    const began = performance.now();
    const deadline = setTimeout(() => mine.abort(), 15000);
    try {
      const answer = await fetch(location.href, {
        headers: { "If-None-Match": main.dataset.live }, cache: "no-store", signal: mine.signal,
      });
      if (answer.status === 200) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        update(main, fresh);
        update(document.getElementById("as-of"), page.getElementById("as-of"));
        document.title = page.title;
      } else if (answer.status !== 304) {
        throw new Error("status " + answer.status);
      } else {
        document.getElementById("as-of").dataset.now = answer.headers.get("X-Now");
      }
      clock();
      lost.hidden = true;
    } catch (problem) {
      if (pending !== mine) return;
    } finally {
      clearTimeout(deadline);
      if (pending === mine) {
        pending = null;
        // A page that takes long, or a slow connection, is requested less often.
        timer = setTimeout(refresh, Math.max(EVERY_MS, 5 * (performance.now() - began)));
      }
    }
  };

  const duration = (ms) => {
    const seconds = Math.max(0, ms) / 1000;
    if (seconds < 10) return seconds.toFixed(1) + " s";
    const whole = Math.round(seconds);
    for (const [size, unit, below, unitBelow] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
      if (whole >= size) {
        const rest = Math.floor(whole % size / below);
        return Math.floor(whole / size) + " " + unit + (rest ? " " + rest + " " + unitBelow : "");
      }
    }
    return whole + " s";
  };

  const tick = () => {
    const now = Date.now() + ahead;
    const asOf = document.getElementById("as-of");
    asOf.textContent = new Date(Number(asOf.dataset.now)).toISOString().slice(0, 19).replace("T", " ");
    for (const each of document.querySelectorAll("time[data-since]")) {
      each.textContent = duration(now - Number(each.dataset.since)) + " ago";
    }
    const unanswered = Date.now() - answeredAt;
    if (unanswered > 10000) {
      lost.textContent = "The job has not answered for " + duration(unanswered) + ": this page is that old.";
      lost.hidden = false;
    }
  };

  if (main.dataset.live !== undefined) {
    clock();
    setInterval(tick, 1000);
    timer = setTimeout(refresh, EVERY_MS);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        clearTimeout(timer);
      } else {
        answeredAt = Date.now();
        refresh();
      }
    });
  }

  // --- search, timeline texts, copy buttons -------------------------------------------------------------------------------

  let typing = 0;
  const find = (form) => {
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    history.replaceState(null, "", location.pathname + (query.size ? "?" + query : ""));
    refresh();
  };
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form.find");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => find(form), 150);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.find")) return;
    event.preventDefault();
    find(event.target);
  });

  const pointed = (event) => {
    const what = event.target.closest && event.target.closest(".mark, .span");
    const title = what && what.querySelector("title");
    if (title) document.getElementById("pointed").textContent = title.textContent;
  };
  document.addEventListener("pointerover", pointed);
  document.addEventListener("click", pointed);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch (problem) {
      // Without TLS a browser gives a page from another host no clipboard; execCommand works everywhere.
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
})();

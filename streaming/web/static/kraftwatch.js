// Keeps the page as the job sees it: asks for it again, and changes only what is different, so that scroll, focus,
// what is open and what is being typed stay. Without it the page reloads itself every ten seconds.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const main = document.getElementById("main");
  const lost = document.getElementById("lost");
  document.documentElement.classList.add("js");

  // --- changing what is different -----------------------------------------------------------------------------

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.getAttribute("data-key") || "" : "";
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  const become = (old, fresh) => {
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
    children(old, fresh);
  };

  const children = (old, fresh) => {
    const keyed = new Map();
    for (const child of old.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
    let at = old.firstChild;
    for (const wanted of [...fresh.childNodes]) {
      const known = keyOf(wanted) ? keyed.get(keyOf(wanted)) : null;
      if (known && alike(known, wanted)) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        become(known, wanted);
      } else if (at && !keyOf(at) && alike(at, wanted)) {
        const here = at;
        at = at.nextSibling;
        become(here, wanted);
      } else {
        old.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  // --- asking again -------------------------------------------------------------------------------------------

  let seenAt = Date.now();
  let ahead = 0;
  let asking = null;
  let again = 0;

  const clock = () => {
    const asOf = document.getElementById("as-of");
    ahead = Number(asOf.dataset.now) - Date.now();
    seenAt = Date.now();
  };

  const look = async () => {
    clearTimeout(again);
    if (asking) asking.abort();
    const mine = asking = new AbortController();
    const began = performance.now();
    const deadline = setTimeout(() => mine.abort(), 15000);
    try {
      const answer = await fetch(location.href, {
        headers: { "If-None-Match": main.dataset.live }, cache: "no-store", signal: mine.signal,
      });
      if (answer.status === 200) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        const fresh = page.getElementById("main");
        become(main, fresh);
        become(document.getElementById("as-of"), page.getElementById("as-of"));
        document.title = page.title;
      } else if (answer.status !== 304) {
        throw new Error("status " + answer.status);
      } else {
        document.getElementById("as-of").dataset.now = answer.headers.get("X-Now");
      }
      clock();
      lost.hidden = true;
    } catch (problem) {
      if (asking !== mine) return;
    } finally {
      clearTimeout(deadline);
      if (asking === mine) {
        asking = null;
        // A page that takes long to draw, or a slow line, is asked for less often.
        again = setTimeout(look, Math.max(EVERY_MS, 5 * (performance.now() - began)));
      }
    }
  };

  const words = (ms) => {
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
      each.textContent = words(now - Number(each.dataset.since)) + " ago";
    }
    const silent = Date.now() - seenAt;
    if (silent > 10000) {
      lost.textContent = "The job has not answered for " + words(silent) + ": what stands here is that old.";
      lost.hidden = false;
    }
  };

  if (main.dataset.live !== undefined) {
    clock();
    setInterval(tick, 1000);
    again = setTimeout(look, EVERY_MS);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) {
        clearTimeout(again);
      } else {
        seenAt = Date.now();
        look();
      }
    });
  }

  // --- finding, pointing, copying -------------------------------------------------------------------------------

  let typing = 0;
  const find = (form) => {
    const asked = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...asked]) if (!value) asked.delete(name);
    history.replaceState(null, "", location.pathname + (asked.size ? "?" + asked : ""));
    look();
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
      // Browsers give a page of another machine no clipboard unless it comes by TLS: the old way works everywhere.
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
})();

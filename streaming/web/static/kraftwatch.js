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

  // A browser refuses requests for an address with a login in it, and a relative one has that of this page.
  const address = (url) => {
    const { pathname, search } = new URL(url, location.href);
    return location.origin + pathname + search;
  };

  const refresh = async () => {
    clearTimeout(timer);
    if (pending) pending.abort();
    if (main.dataset.live === undefined) {
      pending = null;
      return show(location.href);
    }
    const mine = pending = new AbortController();
    const began = performance.now();
    const deadline = setTimeout(() => mine.abort(), 15000);
    try {
      const answer = await fetch(address(location.href), {
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
    if (main.dataset.live === undefined) return;
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

  // --- past states ---------------------------------------------------------------------------------------

  const clockText = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + " UTC";

  // Shows a page of a past state, or the live one, without losing focus and scroll position. While the job replays its
  // journal (202), the page is requested again; a newer choice ends that.
  const show = async (url) => {
    clearTimeout(timer);
    if (pending) pending.abort();
    const mine = pending = new AbortController();
    main.setAttribute("aria-busy", "true");
    try {
      for (;;) {
        const answer = await fetch(address(url), { cache: "no-store", signal: mine.signal });
        const text = await answer.text();
        if (mine.signal.aborted) return;
        if (answer.status === 202) {
          const done = Math.round(100 * Number(answer.headers.get("X-Progress")));
          const status = document.getElementById("at-text") || document.getElementById("replaying");
          if (status) status.textContent = "replaying the journal, " + done + " %";
          await new Promise((resolve) => { setTimeout(resolve, 1000); });
          if (mine.signal.aborted) return;
          continue;
        }
        const page = new DOMParser().parseFromString(text, "text/html");
        const fresh = page.getElementById("main");
        if (!fresh) throw new Error("status " + answer.status);
        if (pending === mine) pending = null;
        update(main, fresh);
        update(document.getElementById("as-of"), page.getElementById("as-of"));
        document.title = page.title;
        const slider = document.getElementById("at");
        if (slider) slider.value = slider.getAttribute("value");
        clock();
        lost.hidden = true;
        if (main.dataset.live !== undefined) timer = setTimeout(refresh, EVERY_MS);
        return;
      }
    } catch (problem) {
      if (mine.signal.aborted) return;
      lost.textContent = "The job did not answer: this page shows the state from before.";
      lost.hidden = false;
    } finally {
      if (pending === mine || pending === null) main.removeAttribute("aria-busy");
    }
  };

  const showAt = (ms) => {
    const query = new URLSearchParams(location.search);
    query.set("at", String(Math.round(ms)));
    history.pushState(null, "", location.pathname + "?" + query);
    show(location.href);
  };

  let moving = 0;
  const point = (ms) => {
    const figure = document.querySelector(".timeline[data-from]");
    const from = Number(figure.dataset.from), to = Number(figure.dataset.to);
    const x = 100 * Math.min(1, Math.max(0, (ms - from) / (to - from))) + "%";
    const cursor = document.getElementById("cursor");
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    document.getElementById("at-text").textContent = clockText(ms);
    document.getElementById("at").setAttribute("aria-valuetext", clockText(ms));
  };
  document.addEventListener("input", (event) => {
    if (event.target.id !== "at") return;
    // The page stands still while the slider moves.
    clearTimeout(timer);
    if (pending) pending.abort();
    const ms = Number(event.target.value);
    point(ms);
    clearTimeout(moving);
    moving = setTimeout(() => showAt(ms), 250);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "scrub") return;
    event.preventDefault();
    clearTimeout(moving);
    showAt(Number(document.getElementById("at").value));
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("a[data-at], #to-live, #control-live");
    if (link && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) {
      event.preventDefault();
      if (link.dataset.at !== undefined) return showAt(Number(link.dataset.at));
      history.pushState(null, "", link.getAttribute("href"));
      return show(location.href);
    }
    const figure = event.target.closest && event.target.closest(".timeline[data-from]");
    const slider = document.getElementById("at");
    if (!figure || !slider || !event.target.closest("svg")) return;
    const box = figure.querySelector("svg").getBoundingClientRect();
    const from = Number(figure.dataset.from), to = Number(figure.dataset.to);
    const ms = from + (to - from) * (event.clientX - box.left) / box.width;
    showAt(Math.min(Number(slider.max), Math.max(Number(slider.min), ms)));
  });
  // A report is a file: only pages of the job are requested again.
  const served = main.dataset.live !== undefined || main.dataset.past !== undefined;
  addEventListener("popstate", () => { if (served) show(location.href); });

  if (main.dataset.past !== undefined && document.getElementById("replaying")) show(location.href);
  setInterval(tick, 1000);
  if (main.dataset.live !== undefined) {
    clock();
    timer = setTimeout(refresh, EVERY_MS);
  }
  document.addEventListener("visibilitychange", () => {
    if (main.dataset.live === undefined) return;
    if (document.hidden) {
      clearTimeout(timer);
    } else {
      answeredAt = Date.now();
      refresh();
    }
  });

  // --- acknowledging and silencing ---------------------------------------------------------------------------

  const name = () => {
    const given = (prompt("Your name, for the others on call", localStorage.getItem("name") || "") || "").trim();
    if (given) localStorage.setItem("name", given);
    return given;
  };
  // A page of another site cannot send this header: what the browser's login allows is not done for it.
  const change = async (button, method, path, body) => {
    button.disabled = true;
    try {
      const answer = await fetch(address(path), {
        method, headers: { "X-Requested-With": "kraftwatch", "Content-Type": "application/json" },
        body: body && JSON.stringify(body), cache: "no-store",
      });
      if (!answer.ok) throw new Error((await answer.json()).status);
      await refresh();
    } catch (problem) {
      lost.textContent = "Nothing was changed: " + problem.message;
      lost.hidden = false;
    } finally {
      button.disabled = false;
    }
  };
  // Letters of a name that are special in a pattern.
  const literal = (text) => text.replace(/[*?[]/g, "[$&]");
  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest(".changes button");
    if (!button) return;
    const { acknowledge, unacknowledge, endSilence, silenceRule, silenceSubject, silenceCluster } = button.dataset;
    if (unacknowledge) return change(button, "DELETE", "/api/acknowledgements/" + unacknowledge);
    if (endSilence) return change(button, "DELETE", "/api/silences/" + encodeURIComponent(endSilence));
    const by = name();
    if (!by) return;
    if (acknowledge) return change(button, "POST", "/api/acknowledgements", { fingerprint: acknowledge, by });
    const ends_at = new Date(Date.now() + ahead + 3600000).toISOString();
    change(button, "POST", "/api/silences", {
      rule: silenceRule, subject: literal(silenceSubject), cluster: literal(silenceCluster), ends_at, author: by,
      comment: "silenced on the page",
    });
  });

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

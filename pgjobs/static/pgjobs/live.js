/* Refreshes the part of a page that is marked with data-pgjobs-live, every so many
   seconds. It stops while the tab is hidden, while something in that part has the focus,
   was unfolded or is marked, while a box of a list is ticked, and where the user switches
   it off. A log gets its new lines and keeps its place. Without it the page is whole. */

"use strict";

{
    const KEY = "pgjobs-live";
    // By a person: the page itself unfolds the newest traceback.
    const UNFOLDED = "details[open]:not([data-pgjobs-open])";
    const part = document.querySelector("[data-pgjobs-live]");

    // A list is loaded as a whole: Django's own script knows its boxes.
    const isList = part !== null && part.hasAttribute("data-pgjobs-reload");
    const isTyping = () => document.activeElement.matches("input[type=text], select");
    const isTicked = () => document.querySelector("#result_list input:checked, .pgjobs-menu[open]");
    // What grows at its end, such as a log, stays in its place while the rest is replaced.
    const kept = (root) => root.querySelector(":scope > [data-pgjobs-keep]");
    const isElsewhere = (node) => part.contains(node) && !kept(part)?.contains(node);
    const isMarked = () => {
        const marked = document.getSelection();
        return !marked.isCollapsed && isElsewhere(marked.anchorNode);
    };
    const isInUse = () => isList
        ? isTyping() || isTicked()
        : isElsewhere(document.activeElement) || isMarked() || part.querySelector(UNFOLDED);

    const addLines = (own, fresh) => {
        const text = own.querySelector("pre").firstChild;
        const data = fresh.querySelector("pre").textContent;
        const box = own.querySelector("[tabindex]");
        const fromTop = box.scrollHeight + box.scrollTop; // its scrollTop counts from the end
        const isAtEnd = box.scrollTop > -4;
        if (data.startsWith(text.data)) {
            text.appendData(data.slice(text.data.length));
        } else if (document.getSelection().isCollapsed) { // its oldest lines are gone
            text.data = data;
        }
        box.scrollTop = isAtEnd ? 0 : fromTop - box.scrollHeight;
    };

    const exchange = (fresh) => {
        const own = kept(part);
        const other = kept(fresh);
        if (!own || !other) {
            part.replaceChildren(...document.importNode(fresh, true).childNodes);
            return;
        }
        addLines(own, other);
        [...part.childNodes].forEach((node) => node !== own && node.remove());
        const nodes = [...document.importNode(fresh, true).childNodes];
        const place = nodes.findIndex((node) => node.matches?.("[data-pgjobs-keep]"));
        own.before(...nodes.slice(0, place));
        own.after(...nodes.slice(place + 1));
    };

    const replace = async () => {
        if (isList) {
            location.reload();
            return true;
        }
        const response = await fetch(location.href, {credentials: "same-origin"});
        if (!response.ok || response.redirected) {
            return false;
        }
        const page = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = page.querySelector("[data-pgjobs-live]");
        if (!fresh) {
            location.reload(); // the job has ended: its page changes no more
        } else if (!isInUse()) {
            document.title = page.title;
            exchange(fresh);
        }
        return true;
    };

    const start = (box, note) => {
        let updated = Date.now();
        let isBusy = false;
        const tick = async () => {
            const age = Math.round((Date.now() - updated) / 1000);
            note.textContent = note.dataset.text.replace("{seconds}", age);
            if (!box.checked || document.hidden || isBusy || age < Number(part.dataset.pgjobsLive) || isInUse()) {
                return;
            }
            isBusy = true;
            const isDone = await replace().catch(() => false);
            isBusy = false;
            updated = isDone ? Date.now() : updated;
            box.checked = box.checked && isDone;
        };
        setInterval(tick, 1000);
    };

    const control = document.querySelector(".pgjobs-live");
    if (part && control) {
        const box = control.querySelector("input");
        control.hidden = false;
        box.checked = localStorage.getItem(KEY) !== "off";
        box.addEventListener("change", () => {
            localStorage.setItem(KEY, box.checked ? "on" : "off");
        });
        start(box, control.querySelector("span"));
    }
}

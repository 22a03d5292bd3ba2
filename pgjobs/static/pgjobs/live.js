/* Refreshes the part of a page that is marked with data-pgjobs-live, every so many
   seconds. It stops while the tab is hidden, while something in that part has the focus
   or was unfolded, while a box of a list is ticked, and where the user switches it off.
   Without it the page is whole. */

"use strict";

{
    const KEY = "pgjobs-live";
    // By a person: the page itself unfolds the newest traceback.
    const UNFOLDED = "details[open]:not([data-pgjobs-open])";
    const part = document.querySelector("[data-pgjobs-live]");

    // A list is loaded as a whole: Django's own script knows its boxes.
    const isList = part !== null && part.hasAttribute("data-pgjobs-reload");
    const isTyping = () => document.activeElement.matches("input[type=text], select");
    const isTicked = () => document.querySelector("#result_list input:checked");
    const isInUse = () => isList
        ? isTyping() || isTicked()
        : part.contains(document.activeElement) || part.querySelector(UNFOLDED);

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
            part.replaceChildren(...document.importNode(fresh, true).childNodes);
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

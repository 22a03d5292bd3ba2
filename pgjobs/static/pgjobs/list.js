/* The bar above a list of jobs: a filter takes effect when it is chosen, and the search
   box completes what the server knows. Without it the bar has a button, and is whole. */

"use strict";

{
    const form = document.querySelector("form.pgjobs-bar");

    const send = () => {
        // What is empty need not stand in the address.
        for (const field of form.querySelectorAll("input[name], select")) {
            field.disabled = field.value === "";
        }
        form.submit();
    };

    const addSuggestions = (box, suggestions) => {
        const list = document.createElement("datalist");
        const addresses = new Map();
        list.id = "pgjobs-suggestions";
        for (const {text, address} of suggestions) {
            const option = document.createElement("option");
            option.value = text;
            list.append(option);
            addresses.set(text, address);
        }
        form.append(list);
        box.setAttribute("list", list.id);
        box.addEventListener("input", (event) => {
            const isChosen = !event.inputType || event.inputType === "insertReplacementText";
            const address = isChosen && addresses.get(box.value);
            if (address) {
                location.assign(address);
            }
        });
    };

    if (form) {
        const box = form.querySelector("#searchbar");
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            send();
        });
        form.addEventListener("change", (event) => event.target.matches("select") && send());
        box.addEventListener("focus", async () => {
            const response = await fetch(form.dataset.pgjobsSuggestions, {credentials: "same-origin"});
            if (response.ok) {
                addSuggestions(box, (await response.json()).suggestions);
            }
        }, {once: true});
        // Back from another page: the fields are as they were sent.
        addEventListener("pageshow", () => {
            for (const field of form.querySelectorAll(":disabled")) {
                field.disabled = false;
            }
        });
    }

    // A menu closes when its reader goes on elsewhere.
    document.addEventListener("click", (event) => {
        for (const menu of document.querySelectorAll(".pgjobs-menu[open]")) {
            menu.open = menu.contains(event.target);
        }
    });
    document.addEventListener("keydown", (event) => {
        const menu = event.key === "Escape" && document.querySelector(".pgjobs-menu[open]");
        if (menu) {
            menu.open = false;
            menu.querySelector("summary").focus();
        }
    });
}

"use strict";
// Sends the forms marked data-job-form without leaving the page, follows the job that
// the server accepted, and opens the result. Without it the forms work all the same.

// Before the first look, after errors, and unless the server says Retry-After.
const PAUSE_SECONDS = 0.2;
const box = document.querySelector("[data-job-box]");

function show(status, message, progress) {
  const bar = box.querySelector("progress");
  box.hidden = false;
  box.dataset.status = status;
  box.querySelector("[data-job-status]").textContent = status;
  box.querySelector("[data-job-message]").textContent = message || "";
  if (progress && progress.total) {
    bar.max = progress.total;
    bar.value = progress.done;
  } else {
    bar.removeAttribute("value");
  }
}

function showErrors(form, errors) {
  const list = form.querySelector("[data-job-errors]");
  list?.replaceChildren(...errors.map((error) => {
    const item = document.createElement("li");
    item.textContent = error;
    return item;
  }));
}

function followSoon(statusUrl, resultUrl, seconds = PAUSE_SECONDS) {
  setTimeout(follow, seconds * 1000, statusUrl, resultUrl);
}

async function follow(statusUrl, resultUrl) {
  let pause;
  try {
    const response = await fetch(statusUrl);
    if (response.status === 404) return show("Gone", "The job was deleted.");
    if (!response.ok) throw new Error(`the server answers ${response.status}`);
    const job = await response.json();
    show(job.status, job.reason || (job.progress && job.progress.message), job.progress);
    if (job.status === "SUCCESSFUL") return location.assign(resultUrl);
    if (job.finished) return;
    pause = Number(response.headers.get("Retry-After")) || undefined;
  } catch (error) {
    show("Trying again", error.message);
  }
  followSoon(statusUrl, resultUrl, pause);
}

async function send(form) {
  box.hidden = true;
  showErrors(form, []);
  const response = await fetch(form.action, {
    method: "POST",
    headers: { Accept: "application/json" },
    body: new FormData(form),
  });
  const answer = await response.json();
  if (response.status === 202) {
    show("Accepted");
    return followSoon(answer.status_url, answer.result_url);
  }
  showErrors(form, Object.values(answer.errors).flat());
}

for (const form of document.querySelectorAll("[data-job-form]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    send(form)
      .catch((error) => show("Not sent", error.message))
      .finally(() => { button.disabled = false; });
  });
}

if (box && box.dataset.statusUrl) follow(box.dataset.statusUrl, box.dataset.resultUrl);

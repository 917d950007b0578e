// Drag, paste and size for the form of evidence; and the new reference for a decision's form in another tab.
(() => {
  "use strict";
  const channel = new BroadcastChannel("weave-evidence");

  const attached = document.querySelector("[data-evidence-ref]");
  if (attached) channel.postMessage({ ref: attached.textContent, instance: attached.dataset.instance });
  channel.onmessage = ({ data }) => {
    const field = document.querySelector("#act [name=evidence_ref]");
    const isHere = location.pathname.startsWith(`/instances/${data.instance}/recovery/`);
    if (field && isHere && !field.value) field.value = data.ref;
  };

  const form = document.querySelector("form[data-evidence]");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const said = form.querySelector("[data-evidence-said]");

  const tell = () => {
    const names = [...input.files].map((file) => {
      const size = `${file.name}, ${file.size.toLocaleString()} B`;
      return file.size > Number(form.dataset.most) ? `${size}: ${form.dataset.tooLarge}` : size;
    });
    said.textContent = names.join("; ");
  };
  const add = (files) => {
    const all = new DataTransfer();
    for (const file of [...input.files, ...files]) all.items.add(file);
    input.files = all.files;
    tell();
  };
  input.addEventListener("change", tell);
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    event.preventDefault();
    add(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData.files.length) {
      event.preventDefault();
      add(event.clipboardData.files);
    }
  });
})();

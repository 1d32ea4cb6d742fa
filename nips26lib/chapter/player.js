// The static half of an explorable: unpacks the frames that its page carries and shows the one that the controls ask for.
// Every explorable brings this script along, so it must be harmless when it runs many times on a page.
(() => {
  "use strict";
  const page = (window.nips26Explorables ??= { ready: new WeakSet(), count: 0 });

  function element(tag, attributes = {}, text = "") {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.textContent = text;
    return node;
  }

  async function unpack(base64) {
    const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  // A frame is a list of runs [first piece, how many, ...] over the pieces that all frames share.
  function frameText(pieces, runs) {
    let text = "";
    for (let i = 0; i < runs.length; i += 2) text += pieces.slice(runs[i], runs[i] + runs[i + 1]).join("");
    return text;
  }

  // Inline SVGs share one name space of ids with the page, so each explorable's get a prefix. The ink becomes the
  // colour of the text around, so that the picture follows the theme.
  function inline(svg, ink, prefix) {
    return svg.replace(/(\sid="|href="#|url\(#)/g, `$1${prefix}`).replaceAll(ink, "currentColor");
  }

  function row(control, id) {
    const line = element("div", { class: "nips26-control" });
    line.append(element("label", { for: id }, control.label));
    if (control.kind === "choice") {
      const select = element("select", { id, autocomplete: "off" });
      control.texts.forEach((text, i) => select.append(element("option", { value: i }, text)));
      select.value = String(control.start);
      line.append(select);
      return { line, input: select, read: () => {} };
    }
    const last = control.texts.length - 1;
    const input = element("input", { id, type: "range", min: 0, max: last, step: 1, autocomplete: "off" });
    input.value = String(control.start);
    // The slider itself announces its value (aria-valuetext); the visible copy must not say it twice.
    const output = element("output", { for: id, "aria-live": "off" });
    line.append(input, output);
    const read = () => {
      const text = control.texts[Number(input.value)];
      output.textContent = text;
      input.setAttribute("aria-valuetext", text);
    };
    return { line, input, read };
  }

  async function start(root) {
    const data = await unpack(root.querySelector("script.nips26-frames").textContent);
    const picture = root.querySelector(".nips26-picture");
    const prefix = `nips26-${++page.count}-`;
    const rows = data.controls.map((control, i) => row(control, `${prefix}control-${i}`));

    const show = () => {
      let point = 0;
      rows.forEach(({ input, read }, i) => {
        read();
        point = point * data.controls[i].texts.length + Number(input.value);
      });
      picture.innerHTML = inline(frameText(data.pieces, data.frames[data.points[point]]), data.ink, prefix);
      const values = rows.map(({ input }, i) => `${data.controls[i].label}: ${data.controls[i].texts[Number(input.value)]}`);
      const svg = picture.querySelector("svg");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${data.alt} (${values.join(", ")})`);
    };

    root.querySelector(".nips26-controls")?.remove(); // a page saved from the browser already has them
    const box = element("div", { class: "nips26-controls" });
    rows.forEach(({ line }) => box.append(line));
    box.addEventListener("input", show);
    root.querySelector("figure").before(box);
    show();
  }

  for (const root of document.querySelectorAll(".nips26-explorable")) {
    if (page.ready.has(root) || !root.querySelector("script.nips26-frames")) continue;
    page.ready.add(root);
    start(root).catch((error) => {
      root.append(element("p", { class: "nips26-failed" }, `The controls of this figure did not start: ${error.message}`));
    });
  }
})();

// Every visible text whose contrast with what lies behind it is below WCAG 2 AA, as readable lines.
// Grounds are composited up the tree; text over pictures is beyond it (there is none in this book).
() => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  function parse(colour) {
    if (!known.has(colour)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  }
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  function ratio(one, other) {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }
  function ground(element) {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    const canvasColour = getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18] : [255, 255, 255];
    return layers.reduceRight((under, layer) => over(layer, under), canvasColour);
  }
  function opacity(element) {
    let product = 1;
    for (let e = element; e; e = e.parentElement) product *= Number(getComputedStyle(e).opacity);
    return product;
  }
  function seen(element) {
    if (!element.checkVisibility({ visibilityProperty: true })) return false;
    if (element.closest("mjx-assistive-mml, .visually-hidden, .sr-only, option, script, style, noscript, title, [disabled]")) return false;
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return false;
    for (let e = element; e; e = e.parentElement) if (opacityOf(e) === 0) return false;
    return true;
  }
  const opacityOf = (element) => Number(getComputedStyle(element).opacity);
  const failures = new Map();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  while (texts.nextNode()) {
    const text = texts.currentNode.data.trim();
    const element = texts.currentNode.parentElement;
    if (!text || !element || !seen(element)) continue;
    count += 1;
    const style = getComputedStyle(element);
    const behind = ground(element);
    const [r, g, b, a] = parse(element instanceof SVGElement ? style.fill : style.color);
    const shown = ratio(over([r, g, b, a * opacity(element)], behind), behind);
    const size = parseFloat(style.fontSize);
    const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (shown < needed - 0.005) {
      const place = element.tagName.toLowerCase() + (element.className?.baseVal ?? (element.className && "." + element.className));
      const line = `${shown.toFixed(2)} < ${needed}: ${style.color} on rgb(${behind.map(Math.round)}) in <${place}>`;
      if (!failures.has(line)) failures.set(line, text.slice(0, 40));
    }
  }
  return { count, failures: [...failures].map(([line, text]) => `${line} ${JSON.stringify(text)}`) };
}

"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colours = ["#2f79c7", "#d9822b", "#2a9d6f", "#b655a8", "#8a8f3a", "#c94f4f", "#4bacc6", "#8064a2"];
  const shapes = { f16: "triangle", f32: "circle", f64: "square" };
  const byId = (id) => document.getElementById(id);
  const unique = (list) => [...new Set(list)];
  const timed = data.rows.filter((row) => row.seconds !== undefined);
  const devices = unique(data.rows.map((row) => row.device));
  const colourOf = (list, item) => colours[list.indexOf(item) % colours.length];

  // -- text -----------------------------------------------------------------------------------

  const digits = (x) => (x >= 1000 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3))));
  const scaled = (x, units) => {
    const [name, factor] = units.find(([, f]) => x * f >= 1) || units[units.length - 1];
    return `${digits(x * factor)} ${name}`;
  };
  const seconds = (x) => scaled(x, [["s", 1], ["ms", 1e3], ["µs", 1e6], ["ns", 1e9]]);
  const flops = (x) => scaled(x, [["TFLOP/s", 1e-12], ["GFLOP/s", 1e-9], ["MFLOP/s", 1e-6]]);
  const bytes = (x) => scaled(x, [["TB/s", 1e-12], ["GB/s", 1e-9], ["MB/s", 1e-6]]);
  const percent = (x) => `${x < 0.0995 ? Number((100 * x).toPrecision(2)) : Math.round(100 * x)} %`;
  const times = (x) => `${digits(x)}×`;
  const some = (x, format) => (x === undefined || x === null ? "–" : format(x));

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in made) made[name] = value;
      else made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  function choices(id, items, chosen, pick) {
    const holder = byId(id);
    const buttons = items.map(([value, text]) =>
      element("button", {
        type: "button",
        textContent: text,
        "aria-pressed": String(value === chosen),
        onclick: () => {
          buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(items[i][0] === value)));
          pick(value);
        },
      }),
    );
    holder.replaceChildren(...buttons);
    pick(chosen);
  }

  // -- header and machine -----------------------------------------------------------------------

  function header() {
    const { environment } = data;
    const { machine } = environment;
    const commit = environment.commit ? `, commit ${environment.commit}` : "";
    const host = `${machine.processor}, ${machine.cores} cores`;
    const names = unique(Object.values(environment.devices).filter((d) => d.kind !== "cpu").map((d) => d.name));
    byId("where").textContent = `${[...names, host].join("; ")}; ${environment.time.slice(0, 10)}${commit}`;
    const rows = Object.entries(environment.devices).map(([name, d]) => [
      name,
      `${d.name} (${d.architecture}), ${d.compute_units} units, driver ${d.driver}`,
    ]);
    rows.push(["system", machine.system], ["Python", environment.python]);
    rows.push(...Object.entries(environment.versions));
    const ended = (time) => time.slice(0, 16).replace("T", " ");
    const peers = environment.peers || { libraries: [], taken_away: {}, held_back: [] };
    for (const x of peers.libraries) {
      const settings = Object.entries(x.settings).map(([name, value]) => `${name}: ${value}`);
      const threads = x.threads === null ? "" : `${x.threads} ${x.threads === 1 ? "thread" : "threads"}`;
      const kernels = x.kernels && `kernels for ${x.kernels}`;
      rows.push([x.part_of ? `${x.name} of ${x.part_of}` : x.name, [x.version, kernels, threads, ...settings].filter(Boolean).join(", ")]);
    }
    const taken = Object.entries(peers.taken_away).map(([name, value]) => `${name}=${value}`);
    if (taken.length) rows.push(["libraries ran without", taken.join(", ")]);
    for (const note of peers.held_back) rows.push(["held back", note]);
    const completed = (environment.completed || []).map((run) => `${run.file} (${ended(run.time)})`);
    if (completed.length) rows.push(["completed by", completed.join(", ")]);
    const lines = rows.map(([name, text]) =>
      element("tr", {}, element("th", { scope: "row", textContent: name }), element("td", { textContent: text })),
    );
    byId("machine").replaceChildren(element("tbody", {}, ...lines));
  }

  // -- heat map ---------------------------------------------------------------------------------

  const measures = {
    peer: {
      text: "beside the best library",
      note: "Speed beside the fastest library on the same problem: above 1, this project's code is faster.",
      value: (row) => Object.values(row.ratios || {}).length ? Math.min(...Object.values(row.ratios)) : undefined,
      show: times,
      place: (x) => 0.5 + Math.log2(x) / 4,
    },
    roof: {
      text: "of the roof",
      note: "Part of what the roofline allows: the device's own copy and multiply-add rates.",
      value: (row) => row.roof,
      show: percent,
      place: (x) => x,
    },
    flops: {
      text: "GFLOP/s",
      note: "Operations per second, on a logarithmic scale of colours.",
      value: (row) => row.flops,
      show: flops,
      place: (x) => Math.log10(x / 1e8) / 6,
    },
  };

  function shade(place) {
    const x = Math.max(0, Math.min(1, place));
    // From orange over pale grey to blue: the ends differ for every kind of sight.
    const [hue, chroma] = x < 0.5 ? [55, 0.5 - x] : [250, x - 0.5];
    return `oklch(${88 - 66 * chroma}% ${0.01 + 0.26 * chroma} ${hue})`;
  }

  function heat(name) {
    const measure = measures[name];
    byId("measure-note").textContent = measure.note;
    const own = data.rows.filter((row) => !row.peer);
    const kinds = unique(own.map((row) => `${row.operation} ${row.dtype}`));
    const lines = kinds.map((kind) => {
      const [operation, dtype] = kind.split(" ");
      const cells = devices.map((device) =>
        heatCell(measure, own.filter((r) => r.operation === operation && r.dtype === dtype && r.device === device)),
      );
      const heading = element("th", { scope: "row", textContent: kind, title: data.operations[operation].text });
      return element("tr", {}, heading, ...cells);
    });
    const top = ["", ...devices].map((text) => element("th", { scope: "col", textContent: text }));
    byId("heat").replaceChildren(
      element("thead", {}, element("tr", {}, ...top)),
      element("tbody", {}, ...lines.filter((line) => line.querySelector("strong, small, .failed"))),
    );
  }

  /** Of the largest problem that has a value. */
  function heatCell(measure, rows) {
    const found = rows.filter((row) => row.seconds !== undefined && measure.value(row) !== undefined
      && measure.value(row) !== null);
    if (!found.length) {
      const alone = rows.filter((row) => row.seconds !== undefined).sort((a, b) => volume(b) - volume(a))[0];
      if (alone) {
        const texts = [seconds(alone.seconds), alone.label].map((text) => element("small", { textContent: text }));
        return element("td", { title: `${alone.name}; nothing to compare with` }, ...texts);
      }
      const failed = rows.find((row) => row.failure);
      return element("td", failed ? { className: "failed", textContent: short(failed.failure), title: failed.failure } : {});
    }
    const largest = Math.max(...found.map(volume));
    const row = found.filter((r) => volume(r) === largest).sort((a, b) => a.seconds - b.seconds)[0];
    const value = measure.value(row);
    const doubt = (row.doubtful || []).length ? ", from one sample or from samples that disagree" : "";
    const cell = element("td", { title: `${row.name}: ${seconds(row.seconds)}${doubt}` });
    cell.style.background = shade(measure.place(value));
    const dark = Math.abs(Math.max(0, Math.min(1, measure.place(value))) - 0.5) > 0.36;
    cell.style.color = dark ? "#ffffff" : "#14161a";
    cell.append(
      element("strong", { textContent: `${measure.show(value)}${doubt && "?"}` }),
      element("small", { textContent: row.label }),
    );
    return cell;
  }

  const volume = (row) => row.size.reduce((a, b) => a * b, 1);
  const short = (text) => (text.length > 60 ? `${text.slice(0, 57)}…` : text);

  // -- charts -----------------------------------------------------------------------------------

  function svg(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  function ticks(low, high) {
    const found = [];
    const decades = Math.log10(high / low);
    const steps = decades <= 1.5 ? [1, 2, 5] : [1];
    const every = decades > 8 ? 3 : decades > 5 ? 2 : 1;
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
      if (power % every) continue;
      for (const step of steps) found.push(step * 10 ** power);
    }
    return found.filter((x) => x >= low * 0.999 && x <= high * 1.001);
  }

  function mark(shape, x, y, colour, hollow, title) {
    const look = { fill: hollow ? "var(--panel)" : colour, stroke: colour, "stroke-width": 1.6 };
    const made = {
      circle: () => svg("circle", { cx: x, cy: y, r: 4.5, ...look }),
      square: () => svg("rect", { x: x - 4, y: y - 4, width: 8, height: 8, ...look }),
      triangle: () => svg("path", { d: `M${x} ${y - 5.5}l5 9h-10z`, ...look }),
    }[shape]();
    if (title) made.append(svg("title", {}, title));
    return made;
  }

  /** Two logarithmic axes; series are {colour, shape, hollow, dashed, points: [x, y, title]}. */
  function chart(holder, { series, x, y, xTicks, label }) {
    const draw = () => {
      const width = Math.max(280, holder.clientWidth);
      const height = Math.round(Math.min(420, Math.max(260, width * 0.55)));
      const room = { left: 66, right: 14, top: 22, bottom: 40 };
      const all = series.flatMap((s) => s.points);
      const range = (k, pad) => {
        const values = all.map((p) => p[k]);
        return [Math.min(...values) / pad, Math.max(...values) * pad];
      };
      const [x0, x1] = range(0, 1.25);
      const [y0, y1] = range(1, 1.6);
      const px = (v) => room.left + (Math.log(v / x0) / Math.log(x1 / x0)) * (width - room.left - room.right);
      const py = (v) => height - room.bottom - (Math.log(v / y0) / Math.log(y1 / y0)) * (height - room.top - room.bottom);
      const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
      let last = -Infinity;
      for (const v of xTicks || ticks(x0, x1)) {
        picture.append(svg("line", { class: "grid", x1: px(v), x2: px(v), y1: room.top, y2: height - room.bottom }));
        if (px(v) - last < 44) continue;
        last = px(v);
        picture.append(svg("text", { x: px(v), y: height - room.bottom + 16, "text-anchor": "middle" }, x.format(v)));
      }
      for (const v of ticks(y0, y1)) {
        picture.append(svg("line", { class: "grid", x1: room.left, x2: width - room.right, y1: py(v), y2: py(v) }));
        picture.append(svg("text", { x: room.left - 6, y: py(v) + 4, "text-anchor": "end" }, y.format(v)));
      }
      picture.append(svg("text", { x: width - room.right, y: height - 6, "text-anchor": "end" }, x.name));
      picture.append(svg("text", { x: 4, y: 12 }, y.name));
      for (const s of series) {
        if (!s.loose && s.points.length > 1) {
          const d = s.points.map((p, i) => `${i ? "L" : "M"}${px(p[0])} ${py(p[1])}`).join("");
          picture.append(svg("path", {
            d, fill: "none", stroke: s.colour, "stroke-width": s.thin ? 1.4 : 2, "stroke-dasharray": s.dashed ? "5 4" : "none",
          }));
        }
        if (s.name) {
          const end = s.points[s.points.length - 1];
          const aside = s.nameAside || 0;
          picture.append(svg("text", { class: "name", x: px(end[0]) - aside, y: py(end[1]) - 6, "text-anchor": "end" }, s.name));
        }
        if (s.shape) for (const p of s.points) picture.append(mark(s.shape, px(p[0]), py(p[1]), s.colour, s.hollow, p[2]));
      }
      holder.replaceChildren(picture);
    };
    if (!series.length) {
      holder.replaceChildren(element("p", { className: "note", textContent: "Nothing of this was measured." }));
      return;
    }
    draw();
    if (holder.observer) holder.observer.disconnect();
    let width = holder.clientWidth;
    holder.observer = new ResizeObserver(() => {
      if (holder.clientWidth !== width) {
        width = holder.clientWidth;
        draw();
      }
    });
    holder.observer.observe(holder);
  }

  function legend(id, entries) {
    byId(id).replaceChildren(...entries.map(([text, colour, shape, hollow, dashed]) => {
      const sample = svg("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" });
      if (!shape || dashed !== undefined) {
        sample.append(svg("line", {
          x1: 0, x2: 22, y1: 6, y2: 6, stroke: colour, "stroke-width": 2, "stroke-dasharray": dashed ? "5 4" : "none",
        }));
      }
      if (shape) sample.append(mark(shape, 11, 6, colour, hollow));
      return element("li", {}, sample, text);
    }));
  }

  const plainNumber = (v) => (v >= 1e5 || v < 1e-3 ? v.toExponential(0).replace("e+", "e") : digits(v));

  function roofline(device) {
    const own = timed.filter((row) => row.device === device && row.intensity);
    const operations = unique(own.map((row) => row.operation));
    const roofs = data.roofs.filter((roof) => roof.device === device && roof.flops && roof.bytes);
    const series = [];
    if (own.length) {
      const xs = own.map((row) => row.intensity).concat(roofs.map((roof) => roof.flops / roof.bytes));
      const low = Math.min(...xs) / 2;
      const high = Math.max(...xs) * 4;
      for (const [i, roof] of roofs.entries()) {
        const corner = roof.flops / roof.bytes;
        series.push({
          colour: "var(--quiet)", thin: true, dashed: roof.dtype !== "f32", name: roof.dtype, nameAside: 34 * i,
          points: [[low, low * roof.bytes], [corner, roof.flops], [high, roof.flops]],
        });
      }
    }
    for (const row of own) {
      const title = `${row.operation} ${row.label} ${row.dtype}, ${row.name}: ${flops(row.flops)}`
        + (row.roof ? `, ${percent(row.roof)} of the roof` : "");
      series.push({
        colour: colourOf(operations, row.operation), shape: shapes[row.dtype] || "circle", hollow: row.peer, loose: true,
        points: [[row.intensity, row.flops, title]],
      });
    }
    chart(byId("roofline"), {
      series,
      x: { name: "operations per byte", format: plainNumber },
      y: { name: "speed", format: (v) => flops(v).replace("FLOP/s", "") + "F/s" },
      label: `Rooflines of ${device}`,
    });
    legend("roof-legend", [
      ...operations.map((name) => [name, colourOf(operations, name), "circle", false]),
      ...unique(own.map((row) => row.dtype)).map((dtype) => [dtype, "var(--quiet)", shapes[dtype] || "circle", false]),
    ]);
  }

  // -- scaling ----------------------------------------------------------------------------------

  const growing = unique(timed.map((row) => row.operation)).filter((operation) => {
    const own = timed.filter((row) => row.operation === operation && row.intensity);
    return new Set(own.map((row) => row.label)).size > 1;
  });
  const scalingChoice = {};

  function scaling() {
    const { operation, dtype } = scalingChoice;
    const own = timed.filter((row) => row.operation === operation && row.dtype === dtype);
    const groups = new Map();
    for (const row of own) {
      const rest = new Set(row.size.slice(1)).size && row.size.some((n) => n !== row.size[0]) ? row.size.slice(1).join("×") : "";
      const key = JSON.stringify([row.device, row.name, rest]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(row);
    }
    const series = [...groups].map(([key, rows]) => {
      const [device, name, rest] = JSON.parse(key);
      rows.sort((a, b) => a.size[0] - b.size[0]);
      return {
        colour: colourOf(devices, device), shape: shapes[dtype] || "circle", hollow: rows[0].peer, dashed: rows[0].peer,
        name: rest && !rows[0].peer && rows.length > 1 && device === devices[0] ? rest : "",
        points: rows.map((row) => [row.size[0], row.seconds, `${device}, ${name} ${row.label}: ${seconds(row.seconds)}`]),
      };
    });
    const axis = (data.operations[operation].axes || ["n"])[0];
    chart(byId("scaling"), {
      series,
      x: { name: axis, format: (v) => String(v) },
      y: { name: "time", format: seconds },
      xTicks: unique(own.map((row) => row.size[0])).sort((a, b) => a - b),
      label: `Time of ${operation} by ${axis}`,
    });
    legend("scaling-legend", [
      ...unique(own.map((row) => row.device)).map((d) => [d, colourOf(devices, d), shapes[dtype] || "circle", false, false]),
      ...(own.some((row) => row.peer) ? [["libraries", "var(--quiet)", shapes[dtype] || "circle", true, true]] : []),
    ]);
    fitted(operation, dtype);
  }

  function fitted(operation, dtype) {
    const rows = data.fits.filter((fit) => fit.operation === operation && fit.dtype === dtype).map((fit) => [
      fit.device, fit.name,
      Object.entries(fit.powers).map(([name, power]) => `${name}^${power.toFixed(2)}`).join(" · "),
      `± ${percent(fit.deviation)}`,
    ]);
    for (const model of data.models.filter((m) => m.operation === operation && m.dtype === dtype)) {
      const costs = Object.entries(model.seconds).map(([name, x]) => `${some(x, x > 0 ? pico : () => "0")} a ${name}`);
      rows.push([model.device, "model", costs.join(", "), `± ${percent(model.deviation)}, worst ${percent(model.worst)}`]);
    }
    const lines = rows.map((texts) => element("tr", {}, ...texts.map((text) => element("td", { textContent: text }))));
    const top = ["device", "by", "time grows as", "deviation"].map((text) => element("th", { scope: "col", textContent: text }));
    byId("fits").replaceChildren(
      ...(rows.length ? [element("thead", {}, element("tr", {}, ...top)), element("tbody", {}, ...lines)] : []),
    );
  }

  const pico = (x) => scaled(x, [["s", 1], ["ms", 1e3], ["µs", 1e6], ["ns", 1e9], ["ps", 1e12]]);

  function scalingTypes() {
    const types = unique(timed.filter((row) => row.operation === scalingChoice.operation).map((row) => row.dtype));
    const first = types.includes(scalingChoice.dtype) ? scalingChoice.dtype : types.includes("f32") ? "f32" : types[0];
    choices("scaling-dtype", types.map((t) => [t, t]), first, (dtype) => {
      scalingChoice.dtype = dtype;
      scaling();
    });
  }

  // -- the table --------------------------------------------------------------------------------

  const markOf = (row, name) => ((row.doubtful || []).includes(name) ? "?" : "");
  const bestRatio = (row) => {
    const found = Object.entries(row.ratios || {}).sort((a, b) => a[1] - b[1])[0];
    return found && { ratio: found[1], text: `${times(found[1])}${markOf(row, found[0])} ${found[0]}` };
  };
  const columns = [
    ["operation", (r) => r.operation],
    ["device", (r) => r.device],
    ["type", (r) => r.dtype],
    ["size", volume, (r) => r.label],
    ["by", (r) => r.name],
    ["time", (r) => r.seconds, (r) => seconds(r.seconds), true],
    ["wall", (r) => r.wall, (r) => seconds(r.wall), true],
    ["spread", (r) => r.spread, (r) => percent(r.spread), true],
    ["GFLOP/s", (r) => r.flops, (r) => digits(r.flops / 1e9), true],
    ["GB/s", (r) => r.bytes, (r) => digits(r.bytes / 1e9), true],
    ["of roof", (r) => r.roof, (r) => percent(r.roof), true],
    ["speed beside", (r) => bestRatio(r)?.ratio, (r) => bestRatio(r).text, true],
    ["error / bound", (r) => r.error, (r) => (r.error ? digits(r.error) : "0"), true],
    ["remarks", (r) => r.failure || r.doubt || undefined],
  ];
  const order = { column: -1, ascending: true };

  function table() {
    const wanted = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = data.rows.filter((row) => {
      const text = `${row.operation} ${row.device} ${row.dtype} ${row.label} ${row.name}`.toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    if (order.column >= 0) {
      const key = columns[order.column][1];
      const missing = (x) => x === undefined || x === null;
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (missing(x) || missing(y)) return missing(x) - missing(y);
        const found = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
        return order.ascending ? found : -found;
      });
    }
    const headings = columns.map(([name, , , right], i) => {
      const button = element("button", { type: "button", textContent: name, onclick: () => sortBy(i) });
      const sorted = i !== order.column ? "none" : order.ascending ? "ascending" : "descending";
      return element("th", { scope: "col", className: right ? "number" : "", "aria-sort": sorted }, button);
    });
    const lines = rows.map((row) => element("tr", { className: row.peer ? "peer" : "" }, ...columns.map(
      ([name, key, text, right]) => {
        const value = key(row);
        const none = value === undefined || value === null;
        const shown = none ? (right ? "–" : "") : String((text || key)(row));
        const look = right ? "number" : name === "why not" && shown ? "reason" : "";
        return element("td", { className: look, textContent: shown });
      },
    )));
    byId("all").replaceChildren(element("thead", {}, element("tr", {}, ...headings)), element("tbody", {}, ...lines));
  }

  function sortBy(i) {
    order.ascending = order.column === i ? !order.ascending : true;
    order.column = i;
    table();
    byId("all").querySelectorAll("thead button")[i].focus();
  }

  header();
  choices("measure", Object.entries(measures).map(([key, m]) => [key, m.text]), "peer", heat);
  choices("roof-device", devices.map((d) => [d, d]), devices[0], roofline);
  if (growing.length) {
    choices("scaling-operation", growing.map((o) => [o, o]), growing[0], (operation) => {
      scalingChoice.operation = operation;
      scalingTypes();
    });
  } else {
    chart(byId("scaling"), { series: [] });
  }
  byId("filter").addEventListener("input", table);
  table();
})();

// Writes slice_js.arrows with the Arrow library of JavaScript: npm install apache-arrow@21.2.0 && node gen.mjs
import * as arrow from "apache-arrow";
import fs from "fs";

const rows = [...Array(6).keys()];
const list = new arrow.FixedSizeList(4, new arrow.Field("item", new arrow.Float32(), true));
const table = new arrow.Table({
  x: arrow.vectorFromArray(rows.map((i) => [i, i + 1, i + 2, i + 3]), list),
  nothing: arrow.vectorFromArray(rows.map(() => null), new arrow.Null()),
  word: arrow.vectorFromArray(rows.map((i) => (i % 3 ? "é" + i : null)), new arrow.Utf8()),
});
fs.writeFileSync("slice_js.arrows", arrow.tableToIPC(table.slice(1, 6), "stream"));

/** The charts of the pipeline's report: a page of one file, which holds its figures, this script and the style sheet. */

import { render } from "preact";
import { bytes, count, duration } from "./core/format";
import { withGaps } from "./core/series";
import { Chart, type Line } from "./ui/chart";

/** As `hubbub/cli/pipeline/report/charts.py` writes it. */
interface Figure {
  title: string;
  lines: Line[];
  times: number[];
  values: (number | null)[][];
  step: number;
  unit: keyof typeof FORMATS;
  bars: boolean;
  log: boolean;
  band: [number, number] | null;
  now: number | null;
}

const FORMATS = { count, bytes, seconds: duration };

for (const element of document.querySelectorAll<HTMLElement>("[data-chart]")) {
  const { times, values, step, unit, band, now, ...figure } = JSON.parse(
    element.dataset.chart ?? "",
  ) as Figure;
  render(
    <Chart
      {...figure}
      plot={withGaps({ times, values }, step)}
      unit={unit}
      format={FORMATS[unit]}
      none="Nothing to draw."
      {...(band && { band })}
      {...(now !== null && { now })}
    />,
    element,
  );
}

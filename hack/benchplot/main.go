// Command benchplot converts the results of hack/bench-purgatory.sh to the tables and the picture
// of docs/bench/purgatory.md.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
)

// run is one line of results. Its JSON names are those of `heartwood bench purgatory --json`.
// Kafka's results contain only the first six fields.
type run struct {
	Case       string  `json:"case"`
	Kind       string  `json:"kind"`
	Requests   float64 `json:"requests"`
	Rate       int     `json:"target_rate"`
	Achieved   float64 `json:"achieved_rate"`
	CPUSeconds float64 `json:"cpu_seconds"`
	Memory     float64 `json:"peak_memory_bytes"`
	GCPauses   float64 `json:"gc_pauses_ms"`
	LateP50    float64 `json:"lateness_p50_ms"`
	LateP99    float64 `json:"lateness_p99_ms"`
}

// cell identifies a measurement. Several runs may measure the same cell.
type cell struct {
	name, kind string
	rate       int
}

func main() {
	log.SetFlags(0)
	results := flag.String("results", "", "`FILE` with one JSON object per line")
	kafka := flag.String("kafka", "",
		"`FILE` with Kafka's results in the same format; none if empty")
	svg := flag.String("svg", "", "`FILE` for the picture")
	flag.Parse()
	if err := plot(os.Stdout, *results, *kafka, *svg); err != nil {
		log.Fatal(err)
	}
}

// plot writes tables of the results to the writer out, and the picture to the file svg.
func plot(out io.Writer, results, kafka, svg string) error {
	cells := map[cell][]run{}
	for _, name := range []string{results, kafka} {
		if name == "" {
			continue
		}
		if err := lines(name, func(line string) error { return add(cells, line) }); err != nil {
			return err
		}
	}
	for _, name := range []string{"low", "high"} {
		table(out, cells, name)
	}
	if err := os.WriteFile(svg, []byte(picture(cells)), 0o644); err != nil {
		return fmt.Errorf("write picture: %w", err)
	}
	return nil
}

// add parses a line of results and adds the run to its cell.
func add(cells map[cell][]run, line string) error {
	var r run
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return fmt.Errorf("parse %q: %w", line, err)
	}
	if r.Kind == "" || r.Requests <= 0 || r.Case != "low" && r.Case != "high" {
		return fmt.Errorf("parse %q: not a result: want case low or high, kind and requests", line)
	}
	c := cell{r.Case, r.Kind, r.Rate}
	cells[c] = append(cells[c], r)
	return nil
}

// lines calls do for each line of a file.
func lines(name string, do func(string) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if err := do(scanner.Text()); err != nil {
			return err
		}
	}
	return scanner.Err()
}

// median returns the median of a value over repeated runs.
func median(runs []run, value func(run) float64) float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = value(r)
	}
	slices.Sort(values)
	if middle := len(values) / 2; len(values)%2 == 1 {
		return values[middle]
	}
	return (values[len(values)/2-1] + values[len(values)/2]) / 2
}

func perMillion(r run) float64 { return r.CPUSeconds / r.Requests * 1e6 }

func sorted(cells map[cell][]run) []cell {
	return slices.SortedFunc(maps.Keys(cells), func(a, b cell) int {
		order := func(rate int) int { // rate 0 means as fast as possible, so it is sorted last
			if rate == 0 {
				return math.MaxInt
			}
			return rate
		}
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(order(a.rate), order(b.rate)),
			cmp.Compare(a.kind, b.kind))
	})
}

func table(out io.Writer, cells map[cell][]run, name string) {
	fmt.Fprintf(out, "\n| %s: rate | kind | CPU s per million (min to max) | achieved | peak MB "+
		"| GC pauses ms | late p50 / p99 ms |\n|---|---|---|---|---|---|---|\n", name)
	for _, c := range sorted(cells) {
		if c.name != name {
			continue
		}
		runs := cells[c]
		least, most := math.Inf(1), 0.0
		for _, r := range runs {
			least, most = min(least, perMillion(r)), max(most, perMillion(r))
		}
		fmt.Fprintf(out, "| %d | %s | %.2f (%.2f to %.2f) | %.0f |", c.rate, c.kind,
			median(runs, perMillion), least, most,
			median(runs, func(r run) float64 { return r.Achieved }))
		if runs[0].Memory == 0 { // a result of Kafka's benchmark, which reports no memory
			fmt.Fprintf(out, " - | - | - |\n")
			continue
		}
		fmt.Fprintf(out, " %.0f | %.1f | %.2f / %.2f |\n",
			median(runs, func(r run) float64 { return r.Memory / 1e6 }),
			median(runs, func(r run) float64 { return r.GCPauses }),
			median(runs, func(r run) float64 { return r.LateP50 }),
			median(runs, func(r run) float64 { return r.LateP99 }))
	}
}

// Dimensions of one of the two charts in the picture, and its margins, in pixels.
const (
	width, height           = 460, 340
	left, right, top, below = 60, 20, 40, 60
)

// pictured lists the kinds in the picture, in the order of the legend. Other kinds appear in the
// tables only.
var pictured = []struct{ kind, colour string }{
	{"kafka", "#e7298a"}, {"afterfunc", "#d95f02"}, {"heap", "#7570b3"}, {"purgatory", "#1b7837"},
	{"baseline", "#999999"},
}

// picture returns an SVG with two charts side by side, one for each case. Each shows the CPU time
// over the target rate on a logarithmic axis, without rate 0.
func picture(cells map[cell][]run) string {
	highest := 0.0
	for _, runs := range cells {
		highest = max(highest, median(runs, perMillion))
	}
	highest = math.Ceil(highest)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"11\">\n", 2*width, height+40)
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n")
	for i, name := range []string{"low", "high"} {
		fmt.Fprintf(&b, "<g transform=\"translate(%d,0)\">\n", i*width)
		axes(&b, name, highest)
		for _, p := range pictured {
			curve(&b, cells, cell{name: name, kind: p.kind}, p.colour, highest)
		}
		fmt.Fprintf(&b, "</g>\n")
	}
	for i, p := range pictured {
		x := left + i*120
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/>"+
			"<text x=\"%d\" y=\"%d\">%s</text>\n",
			x, height+15, p.colour, x+20, height+21, p.kind)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func axes(b *strings.Builder, name string, highest float64) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"20\" font-size=\"13\">"+
		"%s timeout rate: CPU seconds per million requests</text>\n", left, name)
	for _, rate := range []int{25_000, 40_000, 105_000, 400_000, 1_000_000} {
		x := xOf(rate)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#eee\"/>"+
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d k</text>\n",
			x, top, x, height-below, x, height-below+16, rate/1000)
	}
	for i := range 5 {
		value := highest * float64(i) / 4
		y := yOf(value, highest)
		fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ccc\"/>"+
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
			left, y, width-right, y, left-6, y+4, value)
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">"+
		"target rate, requests per second</text>\n", width/2, height-below+34)
}

// curve draws the medians of one kind in one case, at all rates.
func curve(b *strings.Builder, cells map[cell][]run, of cell, colour string, highest float64) {
	var points []string
	for _, c := range sorted(cells) {
		if c.name == of.name && c.kind == of.kind && c.rate > 0 {
			x, y := xOf(c.rate), yOf(median(cells[c], perMillion), highest)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour)
		}
	}
	fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
		strings.Join(points, " "), colour)
}

// xOf returns the x coordinate of a rate.
func xOf(rate int) float64 {
	part := math.Log(float64(rate)/20_000) / math.Log(1_200_000.0/20_000)
	return left + part*(width-left-right)
}

// yOf returns the y coordinate of a value.
func yOf(value, highest float64) float64 {
	return height - below - value/highest*(height-below-top)
}

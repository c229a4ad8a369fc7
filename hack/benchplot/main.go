// Command benchplot turns the results of hack/bench-purgatory.sh into the tables and the picture of docs/bench/purgatory.md.
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
	"strconv"
	"strings"
)

// run is one line of results; the names are those of `heartwood bench purgatory --json`.
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

// cell is what runs are repetitions of.
type cell struct {
	name, kind string
	rate       int
}

func main() {
	log.SetFlags(0)
	results := flag.String("results", "", "`FILE` with a JSON object a line")
	kafka := flag.String("kafka", "", "`FILE` with Kafka's results, tab-separated")
	svg := flag.String("svg", "", "`FILE` to draw")
	flag.Parse()
	if err := plot(*results, *kafka, *svg); err != nil {
		log.Fatal(err)
	}
}

func plot(results, kafka, svg string) error {
	cells := map[cell][]run{}
	if err := lines(results, func(line string) error {
		var r run
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return fmt.Errorf("read %q: %w", line, err)
		}
		c := cell{r.Case, r.Kind, r.Rate}
		cells[c] = append(cells[c], r)
		return nil
	}); err != nil {
		return err
	}
	if kafka != "" {
		if err := lines(kafka, func(line string) error { return addKafka(cells, line) }); err != nil {
			return err
		}
	}
	for _, name := range []string{"low", "high"} {
		table(os.Stdout, cells, name)
	}
	if err := os.WriteFile(svg, []byte(picture(cells)), 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// lines calls do with each line of a file.
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

// addKafka reads case, target rate, repetition, elapsed ms, asked rate, achieved rate, CPU ms; Kafka's runs are of a million.
func addKafka(cells map[cell][]run, line string) error {
	fields := strings.Fields(line)
	if len(fields) < 7 {
		return fmt.Errorf("read %q: want 7 fields", line)
	}
	rate, err := strconv.Atoi(fields[1])
	if err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	achieved, err := strconv.ParseFloat(fields[5], 64)
	if err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	cpu, err := strconv.ParseFloat(fields[6], 64)
	if err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	c := cell{fields[0], "kafka", rate}
	cells[c] = append(cells[c], run{Case: fields[0], Kind: "kafka", Requests: 1e6, Rate: rate, Achieved: achieved, CPUSeconds: cpu / 1000})
	return nil
}

// median of a value over repetitions.
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
		order := func(rate int) int { // as fast as possible comes last
			if rate == 0 {
				return math.MaxInt
			}
			return rate
		}
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(order(a.rate), order(b.rate)), cmp.Compare(a.kind, b.kind))
	})
}

func table(out io.Writer, cells map[cell][]run, name string) {
	fmt.Fprintf(out, "\n| %s: rate | kind | CPU s a million (min to max) | achieved | peak MB | GC pauses ms | late p50 / p99 ms |\n|---|---|---|---|---|---|---|\n", name)
	for _, c := range sorted(cells) {
		if c.name != name {
			continue
		}
		runs := cells[c]
		least, most := math.Inf(1), 0.0
		for _, r := range runs {
			least, most = min(least, perMillion(r)), max(most, perMillion(r))
		}
		fmt.Fprintf(out, "| %d | %s | %.2f (%.2f to %.2f) | %.0f | %.0f | %.1f | %.2f / %.2f |\n", c.rate, c.kind, median(runs, perMillion), least, most,
			median(runs, func(r run) float64 { return r.Achieved }), median(runs, func(r run) float64 { return r.Memory / 1e6 }),
			median(runs, func(r run) float64 { return r.GCPauses }), median(runs, func(r run) float64 { return r.LateP50 }),
			median(runs, func(r run) float64 { return r.LateP99 }))
	}
}

// The picture's measures, in pixels.
const (
	width, height           = 460, 340
	left, right, top, below = 60, 20, 40, 60
)

var colours = map[string]string{
	"purgatory": "#1b7837", "baseline": "#999999", "afterfunc": "#d95f02", "heap": "#7570b3", "purge": "#1f78b4", "kafka": "#e7298a",
	"wheel": "#66a61e",
}

// picture draws CPU against the target rate, which is logarithmic, for both cases side by side. Rate 0 has no place on it.
func picture(cells map[cell][]run) string {
	highest, kinds := 0.0, map[string]bool{}
	for c, runs := range cells {
		highest = max(highest, median(runs, perMillion))
		kinds[c.kind] = true
	}
	highest = math.Ceil(highest)
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", 2*width, height+40)
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n")
	for i, name := range []string{"low", "high"} {
		fmt.Fprintf(&b, "<g transform=\"translate(%d,0)\">\n", i*width)
		axes(&b, name, highest)
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			curve(&b, cells, name, kind, highest)
		}
		fmt.Fprintf(&b, "</g>\n")
	}
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		x := left + i*120
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"4\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n", x, height+15, colours[kind], x+20, height+21, kind)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func axes(b *strings.Builder, name string, highest float64) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"20\" font-size=\"13\">%s timeout rate: CPU seconds a million requests</text>\n", left, name)
	for _, rate := range []int{25_000, 40_000, 105_000, 400_000, 1_000_000} {
		x := across(rate)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#eee\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d k</text>\n",
			x, top, x, height-below, x, height-below+16, rate/1000)
	}
	for i := range 5 {
		value := highest * float64(i) / 4
		y := up(value, highest)
		fmt.Fprintf(b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ccc\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
			left, y, width-right, y, left-6, y+4, value)
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">target rate, requests a second</text>\n", width/2, height-below+34)
}

func curve(b *strings.Builder, cells map[cell][]run, name, kind string, highest float64) {
	var points []string
	for _, c := range sorted(cells) {
		if c.name == name && c.kind == kind && c.rate > 0 {
			x, y := across(c.rate), up(median(cells[c], perMillion), highest)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colours[kind])
		}
	}
	fmt.Fprintf(b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", strings.Join(points, " "), colours[kind])
}

// across is a rate's place, up a value's.
func across(rate int) float64 {
	part := math.Log(float64(rate)/20_000) / math.Log(1_200_000.0/20_000)
	return left + part*(width-left-right)
}

func up(value, highest float64) float64 {
	return height - below - value/highest*(height-below-top)
}

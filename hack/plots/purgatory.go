package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

// result is one line of results. Its JSON names are the same as in `heartwood bench purgatory
// --json`. Kafka's results contain only the first six fields.
type result struct {
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

// cell identifies a measurement. Several runs can measure the same cell.
type cell struct {
	name, kind string
	rate       int
}

// purgatoryTables writes tables with the results of hack/bench-purgatory.sh to out.
func purgatoryTables(out io.Writer, names ...string) error {
	cells := map[cell][]result{}
	for _, name := range names {
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
	return nil
}

// add parses a line of results and adds the run to its cell.
func add(cells map[cell][]result, line string) error {
	var r result
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

// lines calls the function do for each line of a file.
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

// median returns a value's median over repeated runs.
func median(runs []result, value func(result) float64) float64 {
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

func perMillion(r result) float64 { return r.CPUSeconds / r.Requests * 1e6 }

func sorted(cells map[cell][]result) []cell {
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

func table(out io.Writer, cells map[cell][]result, name string) {
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
			median(runs, func(r result) float64 { return r.Achieved }))
		if runs[0].Memory == 0 { // a result of Kafka's benchmark, which does not report memory
			fmt.Fprintf(out, " - | - | - |\n")
			continue
		}
		fmt.Fprintf(out, " %.0f | %.1f | %.2f / %.2f |\n",
			median(runs, func(r result) float64 { return r.Memory / 1e6 }),
			median(runs, func(r result) float64 { return r.GCPauses }),
			median(runs, func(r result) float64 { return r.LateP50 }),
			median(runs, func(r result) float64 { return r.LateP99 }))
	}
}

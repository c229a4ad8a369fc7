package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write creates a file with the given lines and returns its name.
func write(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func result(name, kind string, rate int, cpuSeconds float64) string {
	return fmt.Sprintf(`{"case":%q,"kind":%q,"requests":500000,"target_rate":%d,`+
		`"achieved_rate":%d,"cpu_seconds":%g,"peak_memory_bytes":2000000}`,
		name, kind, rate, rate, cpuSeconds)
}

func TestPlot(t *testing.T) {
	results := write(t,
		result("low", "purgatory", 400_000, 1), result("low", "purgatory", 400_000, 3),
		result("low", "purgatory", 400_000, 1.5),
		result("low", "purgatory", 0, 1), result("low", "purgatory", 25_000, 2),
		result("high", "sundial", 25_000, 4))
	kafka := write(t, `{"case":"low","kind":"kafka","requests":500000,"target_rate":400000,`+
		`"achieved_rate":390000,"cpu_seconds":2}`)
	svg := filepath.Join(t.TempDir(), "picture.svg")
	var out strings.Builder
	if err := plot(&out, results, kafka, svg); err != nil {
		t.Fatal(err)
	}
	// The table contains medians of the CPU time per million requests. The runs have half a million
	// requests, so their CPU times appear doubled.
	low, high, _ := strings.Cut(out.String(), "| high: rate")
	order := 0
	for _, want := range []string{
		"| 25000 | purgatory | 4.00 (4.00 to 4.00) | 25000 | 2 |",
		"| 400000 | kafka | 4.00 (4.00 to 4.00) | 390000 | - | - | - |",
		"| 400000 | purgatory | 3.00 (2.00 to 6.00) |", "| 0 | purgatory | 2.00 (2.00 to 2.00) |",
	} {
		at := strings.Index(low, want)
		if at < order {
			t.Errorf("got no line %q, or it is out of order, in\n%s", want, low)
		}
		order = at
	}
	if !strings.Contains(high, "| 25000 | sundial | 8.00 (8.00 to 8.00) |") {
		t.Errorf("got no line for the run in the table of the high case:\n%s", high)
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, string(picture))
	// The low case has three points: two of the purgatory (rate 0 is omitted) and one of Kafka. The
	// highest value is 8, from the high case, so 3.00 is drawn at 3/8 of the height.
	if points := strings.Count(string(picture), "<circle"); points != 3 {
		t.Errorf("got %d points in the picture, want 3", points)
	}
	if want := fmt.Sprintf("cx=\"%.1f\" cy=\"%.1f\"", xOf(400_000),
		yOf(3, 8)); !strings.Contains(string(picture), want) {
		t.Errorf("got no point at %s in the picture:\n%s", want, picture)
	}
}

func wellFormed(t *testing.T, picture string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
}

func TestCoordinates(t *testing.T) {
	if yOf(0, 4) != height-below || yOf(4, 4) != top {
		t.Errorf("got coordinates %v and %v for 0 and the highest value, want the bottom and the top", yOf(0, 4), yOf(4, 4))
	}
	if a, b, c := xOf(25_000), xOf(100_000),
		xOf(400_000); a < left || c > width-right || math.Abs((b-a)-(c-b)) > 1e-9 {
		t.Errorf("got coordinates %v, %v and %v of three rates, want equal distances, inside the chart", a, b, c)
	}
}

func TestMedian(t *testing.T) {
	runs := func(values ...float64) (all []run) {
		for _, value := range values {
			all = append(all, run{Achieved: value})
		}
		return all
	}
	for want, some := range map[float64][]run{2: runs(9, 1, 2), 2.5: runs(4, 1, 9, 1), 7: runs(7)} {
		if got := median(some, func(r run) float64 { return r.Achieved }); got != want {
			t.Errorf("got median %v, want %v", got, want)
		}
	}
}

func TestPlotRejectsInvalidResults(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "picture.svg")
	for _, line := range []string{"low\t400000\t1", "{}", result("middle", "heap", 1, 1),
		`{"case":"low","kind":"heap"}`} {
		if err := plot(io.Discard, write(t, line), "", svg); err == nil ||
			!strings.Contains(err.Error(), "parse ") {
			t.Errorf("%s: got %v, want a parse error", line, err)
		}
	}
	if err := plot(io.Discard, filepath.Join(t.TempDir(), "none"), "", svg); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: got %v, want os.ErrNotExist", err)
	}
}

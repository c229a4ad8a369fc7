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

// write makes a file of lines.
func write(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "results")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func result(name, kind string, rate int, cpuSeconds float64) string {
	return fmt.Sprintf(
		`{"case":%q,"kind":%q,"requests":500000,"target_rate":%d,"achieved_rate":%d,"cpu_seconds":%g,"peak_memory_bytes":2000000}`,
		name,
		kind,
		rate,
		rate,
		cpuSeconds,
	)
}

func TestPlot(t *testing.T) {
	results := write(t,
		result("low", "purgatory", 400_000, 1), result("low", "purgatory", 400_000, 3),
		result("low", "purgatory", 400_000, 1.5),
		result("low", "purgatory", 0, 1), result("low", "purgatory", 25_000, 2),
		result("high", "sundial", 25_000, 4))
	kafka := write(
		t,
		`{"case":"low","kind":"kafka","requests":500000,"target_rate":400000,"achieved_rate":390000,"cpu_seconds":2}`,
	)
	svg := filepath.Join(t.TempDir(), "picture.svg")
	var out strings.Builder
	if err := plot(&out, results, kafka, svg); err != nil {
		t.Fatal(err)
	}
	// Medians, and per million: the runs are of half as many.
	low, high, _ := strings.Cut(out.String(), "| high: rate")
	order := 0
	for _, want := range []string{
		"| 25000 | purgatory | 4.00 (4.00 to 4.00) | 25000 | 2 |",
		"| 400000 | kafka | 4.00 (4.00 to 4.00) | 390000 | - | - | - |",
		"| 400000 | purgatory | 3.00 (2.00 to 6.00) |", "| 0 | purgatory | 2.00 (2.00 to 2.00) |",
	} {
		at := strings.Index(low, want)
		if at < order {
			t.Errorf("no %q, or not in its place, in\n%s", want, low)
		}
		order = at
	}
	if !strings.Contains(high, "| 25000 | sundial | 8.00 (8.00 to 8.00) |") {
		t.Errorf("the high case lacks its line:\n%s", high)
	}
	picture, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, string(picture))
	// Low: two points of the purgatory, rate 0 has none; one of Kafka's. The highest of all values
	// is 8: 3.00 is at 3/8.
	if points := strings.Count(string(picture), "<circle"); points != 3 {
		t.Errorf("%d points, want 3", points)
	}
	if want := fmt.Sprintf("cx=\"%.1f\" cy=\"%.1f\"", across(400_000),
		up(3, 8)); !strings.Contains(string(picture), want) {
		t.Errorf("no point at %s in\n%s", want, picture)
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

func TestPlaces(t *testing.T) {
	if up(0, 4) != height-below || up(4, 4) != top {
		t.Errorf("values from 0 to the highest lie between %v and %v", up(0, 4), up(4, 4))
	}
	if a, b, c := across(25_000), across(100_000),
		across(400_000); a < left || c > width-right || math.Abs((b-a)-(c-b)) > 1e-9 {
		t.Errorf("rates lie at %v, %v and %v: not logarithmic, or outside", a, b, c)
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
			t.Errorf("median %v, want %v", got, want)
		}
	}
}

func TestPlotRefusesWhatIsNoResult(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "picture.svg")
	for _, line := range []string{"low\t400000\t1", "{}", result("middle", "heap", 1, 1),
		`{"case":"low","kind":"heap"}`} {
		if err := plot(io.Discard, write(t, line), "", svg); err == nil ||
			!strings.Contains(err.Error(), "read ") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := plot(io.Discard, filepath.Join(t.TempDir(), "none"), "", svg); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

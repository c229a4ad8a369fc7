package main

import (
	"errors"
	"fmt"
	"io"
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

func line(name, kind string, rate int, cpuSeconds float64) string {
	return fmt.Sprintf(`{"case":%q,"kind":%q,"requests":500000,"target_rate":%d,`+
		`"achieved_rate":%d,"cpu_seconds":%g,"peak_memory_bytes":2000000}`,
		name, kind, rate, rate, cpuSeconds)
}

func TestPurgatoryTables(t *testing.T) {
	results := write(t,
		line("low", "purgatory", 400_000, 1), line("low", "purgatory", 400_000, 3),
		line("low", "purgatory", 400_000, 1.5),
		line("low", "purgatory", 0, 1), line("low", "purgatory", 25_000, 2),
		line("high", "sundial", 25_000, 4))
	kafka := write(t, `{"case":"low","kind":"kafka","requests":500000,"target_rate":400000,`+
		`"achieved_rate":390000,"cpu_seconds":2}`)
	var out strings.Builder
	if err := purgatoryTables(&out, results, "", kafka); err != nil {
		t.Fatal(err)
	}
	// The table contains medians of the CPU time per million requests. The runs have only half a
	// million requests, so their CPU times are doubled.
	low, high, _ := strings.Cut(out.String(), "| high: rate")
	order := 0
	for _, want := range []string{
		"| 25000 | purgatory | 4.00 (4.00 to 4.00) | 25000 | 2 |",
		"| 400000 | kafka | 4.00 (4.00 to 4.00) | 390000 | - | - | - |",
		"| 400000 | purgatory | 3.00 (2.00 to 6.00) |", "| 0 | purgatory | 2.00 (2.00 to 2.00) |",
	} {
		index := strings.Index(low, want)
		if index < order {
			t.Errorf("got no line %q, or it is out of order, in\n%s", want, low)
		}
		order = index
	}
	if !strings.Contains(high, "| 25000 | sundial | 8.00 (8.00 to 8.00) |") {
		t.Errorf("got no line for the run in the table of the high case:\n%s", high)
	}
}

func TestMedian(t *testing.T) {
	runs := func(values ...float64) (all []result) {
		for _, value := range values {
			all = append(all, result{Achieved: value})
		}
		return all
	}
	for want, some := range map[float64][]result{2: runs(9, 1, 2), 2.5: runs(4, 1, 9, 1), 7: runs(7)} {
		if got := median(some, func(r result) float64 { return r.Achieved }); got != want {
			t.Errorf("got median %v, want %v", got, want)
		}
	}
}

func TestInvalidResultsOfThePurgatoryAreRejected(t *testing.T) {
	for _, text := range []string{"low\t400000\t1", "{}", line("middle", "heap", 1, 1),
		`{"case":"low","kind":"heap"}`} {
		if err := purgatoryTables(io.Discard, write(t, text)); err == nil ||
			!strings.Contains(err.Error(), "parse ") {
			t.Errorf("%s: got %v, want a parse error", text, err)
		}
	}
	if err := purgatoryTables(io.Discard, filepath.Join(t.TempDir(), "none")); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("missing file: got %v, want os.ErrNotExist", err)
	}
}

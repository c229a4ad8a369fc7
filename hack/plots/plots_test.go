package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"heartwood.dev/heartwood/hack/plots/plot"
)

const bench = "../../docs/internals/bench"

// pictureBytesMax is the maximum size of a picture in the documents.
const pictureBytesMax = 300 << 10

// TestPicturesShowTheirResults compares the committed pictures with the results.
func TestPicturesShowTheirResults(t *testing.T) {
	pictures, err := draw(bench)
	if err != nil {
		t.Fatal(err)
	}
	for name, picture := range pictures {
		committed, err := os.ReadFile(filepath.Join(bench, name))
		if err != nil || string(committed) != picture {
			t.Errorf("%s is not drawn from its results (%v): run make plots", name, err)
		}
		if len(picture) > pictureBytesMax {
			t.Errorf("%s has %d bytes, more than %d", name, len(picture), pictureBytesMax)
		}
	}
	files, err := filepath.Glob(filepath.Join(bench, "*.svg"))
	if err != nil || len(files) != len(pictures) {
		t.Errorf("%d pictures in docs/internals/bench, %d files of results (%v)", len(files), len(pictures),
			err)
	}
}

// TestEveryPageHasAPicture checks that each page of measurements shows a picture, and that each
// picture is shown on the page whose name begins the picture's name.
func TestEveryPageHasAPicture(t *testing.T) {
	pictures, err := draw(bench)
	if err != nil {
		t.Fatal(err)
	}
	for name := range pictures {
		if page := page(t, name); !strings.Contains(page, "]("+name+")") {
			t.Errorf("the page of %s does not show it", name)
		}
	}
	pages, err := filepath.Glob(filepath.Join(bench, "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, file := range pages {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(file) != "README.md" && !strings.Contains(string(content), ".svg)") {
			t.Errorf("%s has no picture", file)
		}
	}
}

// page returns the content of the page whose name begins the picture's name.
func page(t *testing.T, name string) string {
	t.Helper()
	base, _, _ := strings.Cut(strings.TrimSuffix(name, filepath.Ext(name)), "-")
	content, err := os.ReadFile(filepath.Join(bench, base+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var numeral = regexp.MustCompile(`[0-9][0-9,]*(?:\.[0-9]+)?`)

// TestResultsAreOnTheirPage checks that the page's text contains every number in the results, so
// pictures and text cannot disagree.
func TestResultsAreOnTheirPage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(bench, "results", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		figure, err := plot.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		onPage := map[float64]bool{}
		for _, text := range numeral.FindAllString(page(t, filepath.Base(file)), -1) {
			value, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
			if err == nil {
				onPage[value] = true
			}
		}
		for _, value := range numbers(figure) {
			if !onPage[value] {
				t.Errorf("%s: the value %v is not on the page", file, value)
			}
		}
	}
}

// numbers returns all measured values and all targets of a figure.
func numbers(figure plot.Figure) (values []float64) {
	for _, chart := range figure.Charts {
		for _, row := range chart.Rows {
			if row.Target != nil {
				values = append(values, *row.Target)
			}
			for _, measurements := range row.Values {
				for _, m := range measurements {
					for _, value := range []float64{m.Median, m.Min, m.Max} {
						if !math.IsNaN(value) {
							values = append(values, value)
						}
					}
				}
			}
		}
	}
	return values
}

// TestInvalidResultsAreNotDrawn checks that the error for invalid results names the file.
func TestInvalidResultsAreNotDrawn(t *testing.T) {
	dir := t.TempDir()
	if _, err := draw(dir); err == nil {
		t.Error("no error without results")
	}
	if err := os.Mkdir(filepath.Join(dir, "results"), 0o700); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{"title": "x"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "results", "broken.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, "", ""); err == nil || !strings.Contains(err.Error(), "broken.json") {
		t.Errorf("got %v, want an error that names broken.json", err)
	}
}

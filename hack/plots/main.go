// Command plots draws the pictures of docs/internals/bench from the results in
// docs/internals/bench/results. With -purgatory, it prints the tables of
// docs/internals/bench/purgatory.md instead.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/hack/plots/plot"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "docs/internals/bench", "`DIRECTORY` with results, and of the pictures")
	results := flag.String("purgatory", "",
		"`FILE` with one JSON object per line, as hack/bench-purgatory.sh writes it")
	kafka := flag.String("kafka", "",
		"`FILE` with Kafka's results in the same format; none if empty")
	flag.Parse()
	if err := run(*dir, *results, *kafka); err != nil {
		log.Fatal(err)
	}
}

func run(dir, results, kafka string) error {
	if results != "" {
		return purgatoryTables(os.Stdout, results, kafka)
	}
	pictures, err := draw(dir)
	if err != nil {
		return err
	}
	for name, picture := range pictures {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(picture), 0o644); err != nil {
			return fmt.Errorf("write picture: %w", err)
		}
	}
	return nil
}

// draw returns the pictures of all results in a directory, by file name.
func draw(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "results", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("find results in %s: %d files, %w", dir, len(files), err)
	}
	pictures := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		figure, err := plot.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json") + ".svg"
		pictures[name] = figure.SVG()
	}
	return pictures, nil
}

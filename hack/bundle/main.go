// Command bundle writes the bundle with which the Operator Lifecycle Manager (OLM) installs the
// operator, in the format registry+v1: manifests, metadata, and a Dockerfile for the image. It
// derives everything from the rendered chart, so that OLM and Helm install the same objects with
// the same permissions.
//
//	bundle -version v0.1.0 -rendered install.yaml -chart charts/heartwood/Chart.yaml \
//	  -samples config/samples -archs amd64,arm64 -created 2026-11-28T00:00:00Z \
//	  -out dist/bundle -policies policies.yaml
//
// OLM refuses bundles with admission policies. -policies names the file that receives those of the
// chart; users apply the file before they install the bundle.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// source contains what the bundle is derived from.
type source struct {
	version  string // such as v0.1.0
	created  string // RFC 3339
	replaces string // the previous version, or ""
	archs    string // architectures of the image, such as amd64,arm64
	rendered []object
	chart    chart
	samples  []object
}

func main() {
	log.SetFlags(0)
	var s source
	flag.StringVar(&s.version, "version", "", "version, such as v0.1.0")
	flag.StringVar(&s.created, "created", "", "time of the release, in RFC 3339")
	flag.StringVar(&s.replaces, "replaces", "", "version that the release replaces, if any")
	flag.StringVar(&s.archs, "archs", "amd64,arm64", "architectures of the image")
	rendered := flag.String("rendered", "", "file with the objects of the rendered chart")
	chartFile := flag.String("chart", "charts/heartwood/Chart.yaml", "metadata of the chart")
	samples := flag.String("samples", "config/samples", "directory with example resources")
	out := flag.String("out", "", "directory to write; it must not exist")
	policies := flag.String("policies", "", "file to write the admission policies to")
	flag.Parse()
	err := s.read(*rendered, *chartFile, *samples)
	if err == nil {
		err = s.write(*out, *policies)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// read reads the files from which the bundle is derived.
func (s *source) read(rendered, chartFile, samples string) (err error) {
	if s.rendered, err = readObjects(rendered); err != nil {
		return err
	}
	if s.chart, err = readChart(chartFile); err != nil {
		return err
	}
	var files []string
	for _, pattern := range []string{"*.yaml", "*/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(samples, pattern))
		if err != nil {
			return fmt.Errorf("list the samples: %w", err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		objects, err := readObjects(file)
		if err != nil {
			return err
		}
		s.samples = append(s.samples, objects...)
	}
	return nil
}

// write writes the bundle and the policies.
func (s *source) write(out, policies string) error {
	files, err := s.bundle()
	if err != nil {
		return err
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		return fmt.Errorf("create the bundle: %w", err)
	}
	for name, content := range files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create the bundle: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write the bundle: %w", err)
		}
	}
	content, err := documents(s.policies())
	if err != nil {
		return err
	}
	if err := os.WriteFile(policies, content, 0o644); err != nil {
		return fmt.Errorf("write the policies: %w", err)
	}
	return nil
}

// bundle returns the files of the bundle by their paths.
func (s *source) bundle() (map[string][]byte, error) {
	csv, err := s.csv()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"metadata/annotations.yaml": s.annotations(),
		"bundle.Dockerfile":         s.dockerfile(),
	}
	for name, content := range s.manifests() {
		csv[name] = content
	}
	for name, content := range csv {
		if files["manifests/"+name], err = yaml.Marshal(content); err != nil {
			return nil, fmt.Errorf("write manifest %s: %w", name, err)
		}
	}
	return files, nil
}

// channel is the channel of the bundle in catalogs. OLM's conventions name channels by the
// stability of what they offer; versions before 1.0 are candidates.
func (s *source) channel() string {
	if strings.HasPrefix(s.version, "v0.") || strings.Contains(s.version, "-") {
		return "candidate"
	}
	return "stable"
}

// labels returns the labels of the bundle's image, which are also the annotations of the bundle.
func (s *source) labels() [][2]string {
	const prefix = "operators.operatorframework.io.bundle."
	return [][2]string{
		{prefix + "mediatype.v1", "registry+v1"}, {prefix + "manifests.v1", "manifests/"},
		{prefix + "metadata.v1", "metadata/"}, {prefix + "package.v1", s.chart.Name},
		{prefix + "channels.v1", s.channel()}, {prefix + "channel.default.v1", s.channel()},
	}
}

func (s *source) annotations() []byte {
	var text strings.Builder
	text.WriteString("annotations:\n")
	for _, label := range s.labels() {
		fmt.Fprintf(&text, "  %s: %s\n", label[0], label[1])
	}
	return []byte(text.String())
}

func (s *source) dockerfile() []byte {
	var text strings.Builder
	text.WriteString("FROM scratch\n\n")
	for _, label := range s.labels() {
		fmt.Fprintf(&text, "LABEL %s=%s\n", label[0], label[1])
	}
	text.WriteString("\nCOPY manifests /manifests/\nCOPY metadata /metadata/\n")
	return []byte(text.String())
}

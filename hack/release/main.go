// Command release writes the archives of a release, their SHA-256 sums, and the manifest of the
// kubectl plugin for krew (https://krew.sigs.k8s.io). The same binaries produce the same bytes.
// Archives made by tar and zip would differ, because they record times and owners.
//
//	release -version v0.1.0 -binaries bin/release -url https://example.com/v0.1.0 -out dist
//
// The directory -binaries contains a directory OS_ARCH for each platform, with the programs as
// files. Each program becomes one archive PROGRAM_VERSION_OS_ARCH.tar.gz, or .zip for Windows. Each
// archive also contains the LICENSE.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// plugin is the program name of the kubectl plugin.
const plugin = "kubectl-heartwood"

// semantic matches a version in the form that krew accepts (https://semver.org, with a leading v).
var semantic = regexp.MustCompile(
	`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// release describes the files to write.
type release struct {
	version  string
	binaries string // input directory
	license  string // path of the license file
	url      string // URL of the directory in which users find the archives
	out      string // output directory
}

func main() {
	log.SetFlags(0)
	var r release
	flag.StringVar(&r.version, "version", "", "version, such as v0.1.0")
	flag.StringVar(&r.binaries, "binaries", "", "directory with OS_ARCH/PROGRAM")
	flag.StringVar(&r.license, "license", "LICENSE", "file of the license")
	flag.StringVar(&r.url, "url", "", "URL of the directory that users download from")
	flag.StringVar(&r.out, "out", "dist", "directory to write")
	flag.Parse()
	if err := r.write(); err != nil {
		log.Fatal(err)
	}
}

// written is a written archive.
type written struct {
	file, program, os, arch, sum string
}

func (r *release) write() error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("-version %q: want a version such as v0.1.0", r.version)
	}
	if !strings.HasPrefix(r.url, "https://") {
		return fmt.Errorf("-url %q: want an https URL", r.url)
	}
	programs, err := filepath.Glob(filepath.Join(r.binaries, "*_*", "*"))
	if err != nil {
		return fmt.Errorf("list the programs: %w", err)
	}
	if len(programs) == 0 {
		return fmt.Errorf("directory %s contains no OS_ARCH/PROGRAM", r.binaries)
	}
	license, err := os.ReadFile(r.license)
	if err != nil {
		return fmt.Errorf("read the license: %w", err)
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return fmt.Errorf("create the directory of the release: %w", err)
	}
	var all []written
	for _, path := range programs {
		written, err := r.archive(path, license)
		if err != nil {
			return err
		}
		all = append(all, written)
	}
	slices.SortFunc(all, func(a, b written) int { return strings.Compare(a.file, b.file) })
	return errors.Join(r.sums(all), r.manifest(all))
}

// archive writes the archive of one program.
func (r *release) archive(path string, license []byte) (artifact written, err error) {
	program := filepath.Base(path)
	artifact.os, artifact.arch, _ = strings.Cut(filepath.Base(filepath.Dir(path)), "_")
	artifact.program = strings.TrimSuffix(program, ".exe")
	content, err := os.ReadFile(path)
	if err != nil {
		return artifact, fmt.Errorf("read the program: %w", err)
	}
	files := []file{{program, content, 0o755}, {"LICENSE", license, 0o644}}
	artifact.file = strings.Join([]string{artifact.program, r.version, artifact.os, artifact.arch},
		"_")
	pack := tarball
	if artifact.os == "windows" {
		artifact.file, pack = artifact.file+".zip", zipped
	} else {
		artifact.file += ".tar.gz"
	}
	packed, err := pack(files)
	if err != nil {
		return artifact, fmt.Errorf("write %s: %w", artifact.file, err)
	}
	sum := sha256.Sum256(packed)
	artifact.sum = hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(r.out, artifact.file), packed, 0o644); err != nil {
		return artifact, fmt.Errorf("write the archive: %w", err)
	}
	return artifact, nil
}

// sums writes SHA256SUMS in the format that sha256sum -c reads.
func (r *release) sums(all []written) error {
	var text strings.Builder
	for _, written := range all {
		text.WriteString(written.sum + "  " + written.file + "\n")
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// manifest writes heartwood.yaml, the plugin's krew manifest.
func (r *release) manifest(all []written) error {
	var platforms []map[string]any
	for _, written := range all {
		if written.program != plugin {
			continue
		}
		bin := plugin
		if written.os == "windows" {
			bin += ".exe"
		}
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": written.os,
				"arch": written.arch}},
			"uri": strings.TrimSuffix(r.url, "/") + "/" + written.file, "sha256": written.sum, "bin": bin,
			"files": []map[string]string{{"from": bin, "to": "."}, {"from": "LICENSE", "to": "."}},
		})
	}
	if len(platforms) == 0 {
		return fmt.Errorf("directory %s contains no %s", r.binaries, plugin)
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
		"metadata": map[string]string{"name": "heartwood"},
		"spec": map[string]any{
			"version": r.version, "homepage": "https://heartwood.dev/", "platforms": platforms,
			"shortDescription": "Show, clean, move and repair Heartwood LogClusters",
			"description": "Shows the state of Heartwood LogClusters, of their topics, brokers and " +
				"cleaners,\nreads and writes records, cleans topics, moves partitions, restarts and " +
				"drains\nbrokers, and serves the web console. It acts with the rights of your " +
				"kubectl\ncontext, and reaches brokers through the API server.\n",
		},
	})
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return os.WriteFile(filepath.Join(r.out, "heartwood.yaml"), content, 0o644)
}

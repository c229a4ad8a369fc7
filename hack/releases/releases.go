package releases

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// Pin states from what a release is built, and what the build results in.
type Pin struct {
	Version string `json:"version"` // the tag, such as v0.1.0
	Commit  string `json:"commit"`
	Go      string `json:"go"` // such as go1.26.8
	// Programs contains the SHA-256 sum of heartwood for each platform, such as linux_amd64.
	Programs map[string]string `json:"programs"`
	// Image is the digest of the image index of all platforms.
	Image string `json:"image"`
}

var (
	commits = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sums    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// check returns an error if a field is missing or invalid.
func (p Pin) check() error {
	switch {
	case !semver.IsValid(p.Version) || semver.Canonical(p.Version) != p.Version:
		return fmt.Errorf("version %q: want a version such as v0.1.0", p.Version)
	case !commits.MatchString(p.Commit):
		return fmt.Errorf("commit %q: want 40 hexadecimal digits", p.Commit)
	case !strings.HasPrefix(p.Go, "go1."):
		return fmt.Errorf("go %q: want a version such as go1.26.8", p.Go)
	case len(p.Programs) == 0:
		return fmt.Errorf("programs: want the sum of at least one platform")
	case !sums.MatchString(strings.TrimPrefix(p.Image, "sha256:")):
		return fmt.Errorf("image %q: want sha256:DIGEST", p.Image)
	}
	for platform, sum := range p.Programs {
		if !sums.MatchString(sum) {
			return fmt.Errorf("sum of %s %q: want 64 hexadecimal digits", platform, sum)
		}
	}
	return nil
}

// Read returns the pins in a directory, in the order of their versions.
func Read(dir string) (pins []Pin, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the releases: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read release: %w", err)
		}
		var pin Pin
		if err = yaml.UnmarshalStrict(content, &pin); err == nil {
			err = pin.check()
		}
		if err != nil {
			return nil, fmt.Errorf("read release %s: %w", file, err)
		}
		if want := pin.Version + ".yaml"; filepath.Base(file) != want {
			return nil, fmt.Errorf("release %s is in file %s, want %s", pin.Version, file, want)
		}
		pins = append(pins, pin)
	}
	slices.SortFunc(pins, func(a, b Pin) int { return semver.Compare(a.Version, b.Version) })
	return pins, nil
}

// Last returns the last of the pins before a version, or nil. Every version is before "".
func Last(pins []Pin, before string) *Pin {
	for i := range slices.Backward(pins) {
		if before == "" || semver.Compare(pins[i].Version, before) < 0 {
			return &pins[i]
		}
	}
	return nil
}

// Write writes a pin into a directory. A version is released once: Write refuses to replace the pin
// by a different one.
func Write(dir string, pin Pin) error {
	if err := pin.check(); err != nil {
		return err
	}
	pins, err := Read(dir)
	if err != nil {
		return err
	}
	content, err := yaml.Marshal(pin)
	if err != nil {
		return fmt.Errorf("write release: %w", err)
	}
	path := filepath.Join(dir, pin.Version+".yaml")
	for _, existing := range pins {
		if existing.Version != pin.Version {
			continue
		}
		before, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read release: %w", err)
		}
		if !bytes.Equal(before, content) {
			return fmt.Errorf("%s is already released, with other files: it has\n%swant\n%s", pin.Version,
				content, before)
		}
		return nil
	}
	return os.WriteFile(path, content, 0o644)
}

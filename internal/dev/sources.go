package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"

	"heartwood.dev/heartwood/internal/manifest"
	"heartwood.dev/heartwood/internal/vfs"
)

// sourcesFile is the name of the file in the data directory that contains the sources
// (docs/internals/format/manifest-sources.md).
const sourcesFile = "manifest-sources.json"

// sourcesVersion is the format version of the file.
const sourcesVersion = 1

// sources contains, by Kind/name, the absolute path of the file that last contained each resource.
type sources map[string]string

// sourcesContent is the content of the file.
type sourcesContent struct {
	Version int     `json:"version"`
	Files   sources `json:"files"`
}

// readSources reads the file. If there is no file, the sources of all resources are unknown. The
// same holds after an error, so an error removes no resource.
func readSources(fsys vfs.FS, file string) (sources, error) {
	content, err := fsys.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return sources{}, nil
	}
	var stored sourcesContent
	if err == nil {
		err = json.Unmarshal(content, &stored)
	}
	if err == nil && stored.Version != sourcesVersion {
		err = fmt.Errorf("version is %d, must be %d", stored.Version, sourcesVersion)
	}
	if err != nil {
		return sources{}, fmt.Errorf("read %s: %w", file, err)
	}
	return stored.Files, nil
}

// write writes the file.
func (s sources) write(fsys vfs.FS, file string) error {
	content, err := json.MarshalIndent(sourcesContent{sourcesVersion, s}, "", "  ")
	if err == nil {
		err = vfs.WriteFileAtomic(fsys, file, append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// next returns the sources after manifests were read. It contains the sources of the resources in
// set, and the previous sources of the absent resources.
func (s sources) next(set *manifest.Set, absent []absence) sources {
	next := sources{}
	for resource, file := range set.Resources() {
		next[resource] = absolute(file)
	}
	for _, a := range absent {
		if a.file != "" {
			next[a.resource] = a.file
		}
	}
	return next
}

// updateSources stores the sources if they have changed.
func (c *cluster) updateSources(next sources) error {
	if maps.Equal(c.sources, next) {
		return nil
	}
	if err := next.write(c.fs, filepath.Join(c.opts.DataDir, sourcesFile)); err != nil {
		return err
	}
	c.sources = next
	return nil
}

// absolute returns the absolute path of a file. It does not resolve symbolic links, because a
// ConfigMap volume replaces them.
func absolute(file string) string {
	if path, err := filepath.Abs(file); err == nil {
		return path
	}
	return file
}

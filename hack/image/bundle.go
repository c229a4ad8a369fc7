package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// BundleImage returns the image that bundle.Dockerfile in a directory describes: the directories
// that it copies, with its labels. The image contains no program, so it has no platform of its own;
// tools expect one all the same.
func BundleImage(dir string) (v1.Image, error) {
	dockerfile, err := os.ReadFile(filepath.Join(dir, "bundle.Dockerfile"))
	if err != nil {
		return nil, fmt.Errorf("read Dockerfile: %w", err)
	}
	config := v1.ConfigFile{OS: "linux", Architecture: "amd64", Created: v1.Time{Time: epoch},
		Config: v1.Config{Labels: map[string]string{}}}
	built := empty.Image
	for line := range strings.Lines(string(dockerfile)) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "LABEL":
			name, value, _ := strings.Cut(words[1], "=")
			config.Config.Labels[name] = value
		case len(words) == 3 && words[0] == "COPY":
			layer, err := directory(dir, words[1])
			if err != nil {
				return nil, err
			}
			if built, err = mutate.Append(built, mutate.Addendum{Layer: layer, History: v1.History{
				Created: v1.Time{Time: epoch}, CreatedBy: strings.TrimSpace(line)}}); err != nil {
				return nil, fmt.Errorf("append layer: %w", err)
			}
		case len(words) > 0 && line != "FROM scratch\n":
			return nil, fmt.Errorf("unknown line in the Dockerfile: %s", line)
		}
	}
	layered, err := built.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read layers: %w", err)
	}
	if len(layered.History) == 0 {
		return nil, errors.New("the Dockerfile copies nothing")
	}
	config.RootFS, config.History = layered.RootFS, layered.History
	return mutate.ConfigFile(built, &config)
}

// directory returns a layer with the directory dir/name. The names of its files are in order.
func directory(dir, name string) (v1.Layer, error) {
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	root := os.DirFS(dir)
	err := fs.WalkDir(root, name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		header := tar.Header{Name: path, Mode: 0o644, ModTime: epoch, Format: tar.FormatPAX}
		if entry.IsDir() {
			header.Typeflag, header.Name, header.Mode = tar.TypeDir, path+"/", 0o755
			return files.WriteHeader(&header)
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		if err := files.WriteHeader(&header); err != nil {
			return err
		}
		_, err = files.Write(content)
		return err
	})
	if err == nil {
		err = files.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("write layer of %s: %w", name, err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	})
}

// writeBundle writes the image of the bundle in a directory as an OCI layout to the directory out,
// with the name ref, and returns the image's digest.
func writeBundle(out, ref, dir string) (v1.Hash, error) {
	image, err := BundleImage(dir)
	if err != nil {
		return v1.Hash{}, err
	}
	written, err := newLayout(out)
	if err != nil {
		return v1.Hash{}, err
	}
	named := layout.WithAnnotations(map[string]string{refName: ref})
	if err := written.AppendImage(image, named); err != nil {
		return v1.Hash{}, fmt.Errorf("write OCI layout: %w", err)
	}
	return image.Digest()
}

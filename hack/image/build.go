package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is the user and the group of the container's process. Both are numeric, because Kubernetes
// can verify runAsNonRoot only for numeric users.
const user = "65532:65532"

// epoch is the timestamp of all files and metadata in the image. It is constant, so two builds of
// the same binary have the same digest.
var epoch = time.Unix(0, 0).UTC()

// Spec describes an image.
type Spec struct {
	// Binary is the path of a static Linux binary. In the image, it is a file in the root directory
	// and the entrypoint.
	Binary       string
	Version      string
	Revision     string
	Architecture string // GOARCH
}

// Build returns the image of a spec.
func Build(spec Spec) (v1.Image, error) {
	if err := checkStatic(spec.Binary); err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(spec.Binary)
	if err != nil {
		return nil, fmt.Errorf("read binary: %w", err)
	}
	entrypoint := "/" + filepath.Base(spec.Binary)
	files, err := archive(entrypoint, binary)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(files)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("create layer: %w", err)
	}
	built, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/image"},
	})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	return mutate.ConfigFile(built, configFile(built, spec, entrypoint))
}

// configFile returns the image's configuration, with the root filesystem and history of its layers.
func configFile(built v1.Image, spec Spec, entrypoint string) *v1.ConfigFile {
	config := &v1.ConfigFile{
		OS:           "linux",
		Architecture: spec.Architecture,
		Created:      v1.Time{Time: epoch},
		Config: v1.Config{
			User:       user,
			WorkingDir: "/",
			Entrypoint: []string{entrypoint},
			// kubectl exec POD -- heartwood needs this path. Without it, only /bin and similar directories
			// are searched.
			Env: []string{"PATH=/"},
			Labels: map[string]string{
				"org.opencontainers.image.title":       filepath.Base(spec.Binary),
				"org.opencontainers.image.description": "Compacting log for Kubernetes with the Kafka protocol",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     spec.Version,
				"org.opencontainers.image.revision":    spec.Revision,
			},
		},
	}
	if layered, err := built.ConfigFile(); err == nil {
		config.RootFS, config.History = layered.RootFS, layered.History
	}
	return config
}

// archive returns the image's single layer as a tar archive with /tmp, /etc and the binary.
func archive(entrypoint string, binary []byte) ([]byte, error) {
	var out bytes.Buffer
	files := tar.NewWriter(&out)
	headers := []tar.Header{
		{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777, ModTime: epoch, Format: tar.FormatPAX},
		{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: epoch, Format: tar.FormatPAX},
		{Name: entrypoint[1:], Typeflag: tar.TypeReg, Mode: 0o755, ModTime: epoch,
			Size: int64(len(binary)), Format: tar.FormatPAX},
	}
	for i := range headers {
		if err := files.WriteHeader(&headers[i]); err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
	}
	if _, err := files.Write(binary); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := files.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	return out.Bytes(), nil
}

// checkStatic rejects a binary that needs a dynamic loader. The image contains no loader, so such a
// binary would fail when the container starts, with the misleading error "no such file or
// directory".
func checkStatic(path string) error {
	binary, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("open binary %s: %w", path, err)
	}
	defer binary.Close()
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			return fmt.Errorf("binary %s is linked dynamically; build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

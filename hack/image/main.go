// Command image writes a container image as a docker-archive, without a container engine or a base
// image. The image contains a static binary, /tmp and /etc. The same inputs produce the same bytes,
// so equal digests mean equal images. It assembles the layers with go-containerregistry. It does
// not use ko, because ko needs a base image from a registry or from ko's cache.
//
// With -layout, it writes an OCI layout instead, with an image for each architecture in -archs. The
// directory -binaries contains the binaries as linux_ARCH/heartwood. With -bundle as well, the OCI
// layout contains the image of an OLM bundle (hack/bundle).
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	log.SetFlags(0)
	var spec Spec
	image := flag.String("image", "",
		"full name with a tag, such as heartwood.dev/heartwood:v0.1.0")
	out := flag.String("out", "image.tar", "file to write")
	flag.StringVar(&spec.Binary, "binary", "", "static binary to put at the root of the image")
	flag.StringVar(&spec.Version, "version", "dev", "label org.opencontainers.image.version")
	flag.StringVar(&spec.Revision, "commit", "unknown", "label org.opencontainers.image.revision")
	flag.StringVar(&spec.Architecture, "arch", runtime.GOARCH, "GOARCH of the binary")
	dir := flag.String("layout", "", "OCI layout to write; it must not exist")
	binaries := flag.String("binaries", "", "directory with linux_ARCH/heartwood, for -layout")
	archs := flag.String("archs", "amd64,arm64", "architectures of the image index, for -layout")
	bundle := flag.String("bundle", "", "directory with an OLM bundle, for -layout")
	flag.Parse()

	if *dir != "" {
		var digest v1.Hash
		var err error
		if *bundle != "" {
			digest, err = writeBundle(*dir, *image, *bundle)
		} else {
			specs := platformSpecs(*binaries, "heartwood", strings.Split(*archs, ","), spec)
			digest, err = writeLayout(*dir, *image, specs)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(digest)
		return
	}
	if err := run(*image, *out, spec); err != nil {
		log.Fatal(err)
	}
}

func run(image, out string, spec Spec) error {
	tag, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("-image %q: %w", image, err)
	}
	built, err := Build(spec)
	if err != nil {
		return err
	}
	if err := write(out, tag, built); err != nil {
		return err
	}
	digest, err := built.Digest()
	if err != nil {
		return fmt.Errorf("compute digest of image: %w", err)
	}
	fmt.Printf("%s %s %s\n", out, tag, digest)
	return nil
}

// write writes the image to a temporary file and renames it to the path out. So no other program
// reads an incomplete image.
func write(out string, tag name.Tag, built v1.Image) error {
	partial, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".*")
	if err != nil {
		return fmt.Errorf("create archive: %w", err)
	}
	defer os.Remove(partial.Name())
	if err := tarball.Write(tag, built, partial); err != nil {
		partial.Close()
		return fmt.Errorf("write archive: %w", err)
	}
	if err := partial.Close(); err != nil {
		return fmt.Errorf("close archive: %w", err)
	}
	if err := os.Chmod(partial.Name(), 0o644); err != nil {
		return fmt.Errorf("set permissions of archive: %w", err)
	}
	return os.Rename(partial.Name(), out)
}

// Command pinrelease reads and writes the files in hack/releases, and builds releases from them.
//
//	pinrelease write -version v0.1.0 -commit COMMIT -go go1.26.8 -image sha256:... -binaries DIR
//	pinrelease last [-before v0.2.0]     # prints the version, or nothing
//	pinrelease build [-version v0.1.0] -out FILE
//
// The directory -binaries contains the programs as linux_ARCH/heartwood. Without -version, build
// builds the last release.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/hack/releases"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("pinrelease write|last|build")
	}
	commands := map[string]func([]string) error{"write": write, "last": last, "build": build}
	command, known := commands[os.Args[1]]
	if !known {
		log.Fatalf("unknown command %s: want write, last or build", os.Args[1])
	}
	if err := command(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// flags returns the flags of a command, with that of the directory of releases.
func flags(command string) (set *flag.FlagSet, dir *string) {
	set = flag.NewFlagSet(command, flag.ExitOnError)
	dir = set.String("dir", "hack/releases", "directory with the releases")
	return set, dir
}

func write(args []string) error {
	var pin releases.Pin
	set, dir := flags("write")
	set.StringVar(&pin.Version, "version", "", "tag of the release")
	set.StringVar(&pin.Commit, "commit", "", "commit of the release")
	set.StringVar(&pin.Go, "go", "", "version of Go")
	set.StringVar(&pin.Image, "image", "", "digest of the image")
	binaries := set.String("binaries", "", "directory with linux_ARCH/heartwood")
	if err := set.Parse(args); err != nil {
		return err
	}
	programs, err := filepath.Glob(filepath.Join(*binaries, "linux_*", "heartwood"))
	if err != nil {
		return fmt.Errorf("list the programs: %w", err)
	}
	pin.Programs = map[string]string{}
	for _, program := range programs {
		content, err := os.ReadFile(program)
		if err != nil {
			return fmt.Errorf("read program: %w", err)
		}
		sum := sha256.Sum256(content)
		pin.Programs[filepath.Base(filepath.Dir(program))] = hex.EncodeToString(sum[:])
	}
	return releases.Write(*dir, pin)
}

func last(args []string) error {
	set, dir := flags("last")
	before := set.String("before", "", "print the last release before this version")
	if err := set.Parse(args); err != nil {
		return err
	}
	pins, err := releases.Read(*dir)
	if pin := releases.Last(pins, *before); pin != nil {
		fmt.Println(pin.Version)
	}
	return err
}

func build(args []string) error {
	set, dir := flags("build")
	version := set.String("version", "", "version to build (default: the last release)")
	out := set.String("out", "", "file to write")
	if err := set.Parse(args); err != nil {
		return err
	}
	pins, err := releases.Read(*dir)
	if err != nil {
		return err
	}
	pin := releases.Last(pins, "")
	if *version != "" {
		index := slices.IndexFunc(pins, func(p releases.Pin) bool { return p.Version == *version })
		if index < 0 {
			return fmt.Errorf("%s is not in %s", *version, *dir)
		}
		pin = &pins[index]
	}
	if pin == nil {
		return errors.New("there is no release yet: " + *dir + " has no files")
	}
	return pin.Build(context.Background(), ".", *out)
}

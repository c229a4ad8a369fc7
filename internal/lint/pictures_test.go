package lint

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// roomPicture matches a heading with a room's directory, and the picture below it.
var roomPicture = regexp.MustCompile("(?s)\n### `([a-z/]+)`\n\n```\n(.*?)```\n")

// packageInPicture matches a package name followed by a colon.
var packageInPicture = regexp.MustCompile(`\b([a-z]+):`)

// TestPicturesOfRoomsAreTrue compares the pictures in docs/internals/architecture.md with the code.
// Each package of a room must be in one row, and may import only packages in lower rows.
func TestPicturesOfRoomsAreTrue(t *testing.T) {
	pictures := roomPicture.FindAllStringSubmatch(read(t, "docs/internals/architecture.md"), -1)
	if len(pictures) < 3 {
		t.Fatalf("%d pictures of rooms", len(pictures))
	}
	for _, picture := range pictures {
		room := picture[1]
		rows, packages := pictureRows(picture[2]), map[string]bool{}
		for directory, imports := range layers {
			name, ok := nameInRoom(room, directory)
			if !ok {
				continue
			}
			packages[name] = true
			row, drawn := rows[name]
			if !drawn {
				t.Errorf("the picture of %s lacks package %s", room, directory)
				continue
			}
			for _, other := range imports {
				if lower, ok := nameInRoom(room, other); ok && rows[lower] <= row {
					t.Errorf("%s imports %s, which is not in a lower row of the picture of %s",
						directory, other, room)
				}
			}
		}
		for name := range rows {
			if !packages[name] {
				t.Errorf("the picture of %s has %s, which is no package", room, name)
			}
		}
	}
}

// pictureRows returns each package's row number. A row ends at a horizontal line.
func pictureRows(picture string) map[string]int {
	rows, row := map[string]int{}, 0
	for line := range strings.Lines(picture) {
		if strings.Contains(line, "──") {
			row++
			continue
		}
		for _, found := range packageInPicture.FindAllStringSubmatch(line, -1) {
			rows[found[1]] = row
		}
	}
	return rows
}

// nameInRoom returns the name that the picture of a room uses for the package in a directory.
func nameInRoom(room, directory string) (string, bool) {
	if directory != room && !strings.HasPrefix(directory, room+"/") {
		return "", false
	}
	name := path.Base(directory)
	return name, !strings.HasSuffix(name, "test") // without helpers of tests
}

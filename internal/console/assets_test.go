package console

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Limits on the total size of all assets, in bytes.
const (
	assetsMax     = 60 << 10
	assetsGzipMax = 20 << 10
)

func TestAssetsAreSmall(t *testing.T) {
	sum, zipped := 0, &bytes.Buffer{}
	writer, err := gzip.NewWriterLevel(zipped, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	eachFile(t, assetFiles, "assets", func(_ string, content []byte) {
		sum += len(content)
		if _, err := writer.Write(content); err != nil {
			t.Fatal(err)
		}
	})
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if sum == 0 || sum > assetsMax || zipped.Len() > assetsGzipMax {
		t.Errorf("the assets have %d bytes, %d with gzip; the limits are %d and %d", sum,
			zipped.Len(), assetsMax, assetsGzipMax)
	}
}

// namespace is the only URL that a file may contain. As the name of an XML namespace, it is never
// requested by a browser.
const namespace = "http://www.w3.org/2000/svg"

var (
	origin = regexp.MustCompile(`(?i)(https?:)?//[a-z0-9-]+(\.[a-z0-9-]+)+`)
	inline = regexp.MustCompile(`(?i)\sstyle\s*=|\son[a-z]+\s*=|javascript:|<style|<script[^>]*>[^<]`)
	rooted = regexp.MustCompile(`(?i)(href|src|action)="/`)
)

// TestNothingComesFromOtherOrigins checks that pages work without the internet, below any path, and
// under the Content-Security-Policy.
func TestNothingComesFromOtherOrigins(t *testing.T) {
	check := func(name string, content []byte) {
		text := strings.ReplaceAll(string(content), namespace, "")
		if found := origin.FindString(text); found != "" {
			t.Errorf("%s names another origin: %s", name, found)
		}
		if strings.HasSuffix(name, ".html") {
			if found := inline.FindString(text); found != "" {
				t.Errorf("%s contains inline code: %q", name, found)
			}
			if found := rooted.FindString(text); found != "" {
				t.Errorf("%s contains a link that is not relative: %q", name, found)
			}
		}
	}
	eachFile(t, assetFiles, "assets", check)
	eachFile(t, templateFiles, "templates", check)
}

func TestPatternsFindInlineCode(t *testing.T) {
	for _, text := range []string{` style="x"`, ` onclick = "x"`, `<script>alert(1)`,
		`href="javascript:x"`} {
		if !inline.MatchString(text) {
			t.Errorf("%q was not found", text)
		}
	}
	if !origin.MatchString(`src="//cdn.example.com/x.js"`) || !rooted.MatchString(`href="/x"`) {
		t.Error("an absolute URL was not found")
	}
}

func eachFile(t *testing.T, files fs.FS, dir string, check func(name string, content []byte)) {
	t.Helper()
	found := 0
	err := fs.WalkDir(files, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		check(name, content)
		found++
		return err
	})
	if err != nil || found == 0 {
		t.Fatalf("%d files in %s: %v", found, dir, err)
	}
}

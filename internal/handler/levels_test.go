package handler

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
)

// TestCreateTopicsRejectsLevelsOutOfRange checks that a compression level outside its codec's range
// is rejected with INVALID_CONFIG in every version. The message names the setting, the codec and
// the range, and no topic is created (KIP-390). The rules for manifests are tested in
// api/v1alpha1/rules_table_test.go.
func TestCreateTopicsRejectsLevelsOutOfRange(t *testing.T) {
	for _, c := range []struct {
		codec, level string
		message      []string // parts of the error message; nil: no error
	}{
		{"gzip", "0", []string{"gzip level 0", "1 to 9"}},
		{"gzip", "10", []string{"gzip level 10", "1 to 9"}},
		{"gzip", "-2", []string{"gzip level -2", "1 to 9"}},
		{"lz4", "0", []string{"lz4 level 0", "1 to 17"}},
		{"lz4", "18", []string{"lz4 level 18", "1 to 17"}},
		{"lz4", "-1", []string{"lz4 level -1", "1 to 17"}},
		{"zstd", "23", []string{"zstd level 23", "-131072 to 22"}},
		{"zstd", "-131073", []string{"zstd level -131073", "-131072 to 22"}},
		// the internal constant compress.LevelDefault is not a valid level
		{"zstd", "-2147483648", []string{"-2147483648"}},
		{"zstd", "high", []string{"high"}},
		{"zstd", "", nil}, // without a level, the default applies
		{"gzip", "-1", nil}, {"gzip", "1", nil}, {"gzip", "9", nil}, {"lz4", "1", nil},
		{"lz4", "17", nil}, {"zstd", "-131072", nil},
		{"zstd", "0", nil}, {"zstd", "22", nil},
	} {
		b := newBroker(t)
		name := "compression." + c.codec + ".level"
		for version := int16(2); version <= 7; version++ {
			got := b.create(version, "tickets", func(r *kmsg.CreateTopicsRequestTopic) {
				withConfig("compression.type", &c.codec)(r)
				if c.level != "" {
					withConfig(name, &c.level)(r)
				}
			})
			if c.message == nil {
				if got.ErrorCode != 0 {
					t.Errorf("%s=%s: error %d, %s", name, c.level, got.ErrorCode,
						textOf(got.ErrorMessage))
				}
				break // the topic exists now
			}
			if got.ErrorCode != 40 || b.image.Load().Topic("tickets") != nil {
				t.Errorf("%s=%s, version %d: error %d", name, c.level, version, got.ErrorCode)
			}
			for _, part := range append(c.message, name) {
				if !strings.Contains(textOf(got.ErrorMessage), part) {
					t.Errorf("%s=%s: %q lacks %q", name, c.level, textOf(got.ErrorMessage), part)
				}
			}
		}
	}
}

// TestCreateTopicsRejectsLevelsWithoutEffect checks that a compression level is rejected if the
// codec has no levels, or if the topic uses another codec.
func TestCreateTopicsRejectsLevelsWithoutEffect(t *testing.T) {
	for _, c := range []struct{ kind, name, message string }{
		{"snappy", "compression.snappy.level", "compression.snappy.level"},
		{"uncompressed", "compression.zstd.level",
			"no effect while compression.type is uncompressed"},
		{"producer", "compression.gzip.level", "no effect while compression.type is producer"},
		{"lz4", "compression.zstd.level", "no effect while compression.type is lz4"},
	} {
		got := newBroker(t).create(7, "tickets", func(r *kmsg.CreateTopicsRequestTopic) {
			withConfig("compression.type", &c.kind)(r)
			withConfig(c.name, new("5"))(r)
		})
		if got.ErrorCode != 40 || !strings.Contains(textOf(got.ErrorMessage), c.message) {
			t.Errorf("%s with %s: error %d, %s", c.kind, c.name, got.ErrorCode,
				textOf(got.ErrorMessage))
		}
	}
	if _, _, _, leveled := compress.Snappy.Levels(); leveled {
		t.Error("snappy has levels: it needs a setting")
	}
}

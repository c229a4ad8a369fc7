package metadata

import (
	"fmt"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestCompressionOfTheCleaner checks that the status contains the cleaner's compression if the
// topic is compacted and sets a separate codec for the cleaner.
func TestCompressionOfTheCleaner(t *testing.T) {
	denser := v1alpha1.TopicSettings{CleanupPolicy: v1alpha1.CleanupCompact,
		Compression: &v1alpha1.Compression{
			Type: "lz4", Clean: &v1alpha1.CleanCompression{Type: "zstd", Level: new(int32(19))},
		}}
	settings, err := ResolveSettings(denser, nil)
	if err != nil {
		t.Fatal(err)
	}
	status := Compression(settings)
	if status.Type != "lz4" {
		t.Errorf("got type %s, want lz4", status.Type)
	}
	clean := status.Clean
	if clean == nil || clean.Level == nil {
		t.Fatalf("got clean %+v, want a level", clean)
	}
	if clean.Type != "zstd" || *clean.Level != 19 {
		t.Errorf("got clean %s %d, want zstd 19", clean.Type, *clean.Level)
	}
	if want := "zstd best (as levels 10 to 22)"; clean.Encoder != want {
		t.Errorf("got encoder %q, want %q", clean.Encoder, want)
	}
	settings.Compact = false
	if status := Compression(settings); status.Clean != nil {
		t.Errorf("a topic without compaction reports clean compression %+v", status.Clean)
	}
	settings.Compact, settings.CleanCodec.Set = true, false
	if status := Compression(settings); status.Clean != nil {
		t.Errorf("a topic without clean compression reports %+v", status.Clean)
	}
}

// TestCompressionReportsTheEffectiveEncoder checks that a codec configured without a level is
// reported with its default level (KIP-390).
func TestCompressionReportsTheEffectiveEncoder(t *testing.T) {
	level := func(n int32) *int32 { return &n }
	for _, tt := range []struct {
		topic, cluster *v1alpha1.Compression
		want           string
	}{
		{nil, nil, "producer - "},
		{&v1alpha1.Compression{Type: "uncompressed"}, nil, "uncompressed - "},
		{&v1alpha1.Compression{Type: "snappy"}, nil, "snappy - snappy"},
		{&v1alpha1.Compression{Type: "gzip"}, nil, "gzip 6 deflate 6"},
		{&v1alpha1.Compression{Type: "lz4"}, nil, "lz4 9 lz4 fast"},
		{&v1alpha1.Compression{Type: "lz4", Level: level(4)}, nil,
			"lz4 4 lz4 high compression with 8 attempts"},
		{&v1alpha1.Compression{Type: "zstd"}, nil, "zstd 3 zstd default (as levels 3 to 5)"},
		{&v1alpha1.Compression{Type: "zstd", Level: level(19)}, nil,
			"zstd 19 zstd best (as levels 10 to 22)"},
		{&v1alpha1.Compression{Type: "zstd", Level: level(0)}, nil,
			"zstd 0 zstd fastest (as levels -131072 to 2)"},
		{nil, &v1alpha1.Compression{Type: "gzip", Level: level(9)}, "gzip 9 deflate 9"},
		{&v1alpha1.Compression{Type: "producer"}, &v1alpha1.Compression{Type: "gzip"},
			"producer - "},
	} {
		cluster := clusterWith(v1alpha1.TopicSettings{Compression: tt.cluster})
		settings, err := ResolveSettings(v1alpha1.TopicSettings{Compression: tt.topic}, cluster)
		if err != nil {
			t.Fatal(err)
		}
		status := Compression(settings)
		text := "-"
		if status.Level != nil {
			text = fmt.Sprint(*status.Level)
		}
		if got := fmt.Sprintf("%s %s %s", status.Type, text, status.Encoder); got != tt.want {
			t.Errorf("topic %v, cluster %v: %q, want %q", tt.topic, tt.cluster, got, tt.want)
		}
	}
}

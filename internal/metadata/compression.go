package metadata

import (
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compression says what really happens to the batches of a topic with these settings: the codec,
// the level in force, and what our encoder makes of that level (compress.Effective); for what the
// cleaner writes, too, where that is another.
func Compression(s topicconfig.Settings) *v1alpha1.CompressionStatus {
	status := &v1alpha1.CompressionStatus{Type: compressionProducer}
	if !s.KeepCodec {
		status.Type, status.Level, status.Encoder = inForce(s.Codec, s.CodecLevel)
	}
	if clean := s.CleanCodec; clean.Set && s.Compact {
		status.Clean = &v1alpha1.CleanCompressionStatus{}
		status.Clean.Type, status.Clean.Level,
			status.Clean.Encoder = inForce(clean.Codec, clean.Level)
	}
	return status
}

// inForce is how a codec and a level are shown; a codec without levels has none.
func inForce(codec compress.Codec, wanted int) (name v1alpha1.CompressionType, level *int32,
	encoder string) {
	if codec == compress.None {
		return compressionNone, nil, ""
	}
	setting := compress.Effective(codec, wanted)
	if _, _, _, ok := codec.Levels(); ok {
		level = new(int32(setting.Level))
	}
	return v1alpha1.CompressionType(codec.String()), level, setting.String()
}

// CompressionText is Compression on one line: the type as the Topic resource names it and, at a
// level that is not the codec's own, the level and what it does.
func CompressionText(s topicconfig.Settings) string {
	status := Compression(s)
	if s.CodecLevel == compress.LevelDefault || status.Level == nil {
		return string(status.Type)
	}
	return fmt.Sprintf("%s compressionLevel=%d encoder=%q", status.Type, *status.Level,
		status.Encoder)
}

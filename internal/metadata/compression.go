package metadata

import (
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compression returns a topic's effective compression: the codec, its level, and the encoder's
// setting for that level (compress.Effective). If the topic sets a separate codec for the cleaner,
// the result includes the cleaner's compression.
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

// inForce returns, in the form of a status, a codec's name, its effective level, and the encoder's
// setting. level is nil for a codec without levels.
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

// CompressionText formats the result of Compression as one line: the type as in the Topic resource
// and, for a level other than the codec's default, the level and the encoder's setting.
func CompressionText(s topicconfig.Settings) string {
	status := Compression(s)
	if s.CodecLevel == compress.LevelDefault || status.Level == nil {
		return string(status.Type)
	}
	return fmt.Sprintf("%s compressionLevel=%d encoder=%q", status.Type, *status.Level,
		status.Encoder)
}

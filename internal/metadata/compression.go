package metadata

import (
	"fmt"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compression says what really happens to the batches of a topic with these settings: the codec, the level in force, and what our
// encoder makes of that level (compress.Effective).
func Compression(s topicconfig.Settings) *v1alpha1.CompressionStatus {
	switch {
	case s.KeepCodec:
		return &v1alpha1.CompressionStatus{Type: compressionProducer}
	case s.Codec == compress.None:
		return &v1alpha1.CompressionStatus{Type: compressionNone}
	}
	setting := compress.Effective(s.Codec, s.CodecLevel)
	status := &v1alpha1.CompressionStatus{Type: v1alpha1.CompressionType(s.Codec.String()), Encoder: setting.String()}
	if _, _, _, ok := s.Codec.Levels(); ok {
		level := int32(setting.Level)
		status.Level = &level
	}
	return status
}

// CompressionWords is Compression on one line: the type as the Topic resource names it and, at a level that is not the codec's own,
// the level and what it does.
func CompressionWords(s topicconfig.Settings) string {
	status := Compression(s)
	if s.CodecLevel == compress.LevelDefault || status.Level == nil {
		return string(status.Type)
	}
	return fmt.Sprintf("%s compressionLevel=%d encoder=%q", status.Type, *status.Level, status.Encoder)
}

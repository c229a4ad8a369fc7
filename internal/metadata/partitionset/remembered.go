package partitionset

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// rememberedBytesMax limits the size of the decoded status. The API server stores at most 1.5 MB.
const rememberedBytesMax = 4 << 20

// Remember stores a deleted set's status in an annotation of the set that will replace it. It
// compresses the text, because an object's annotations are limited to 256 KiB.
func Remember(set *v1alpha1.PartitionSet, last v1alpha1.PartitionSetStatus) error {
	if len(last.Partitions) == 0 {
		return nil
	}
	var text bytes.Buffer
	encoder := base64.NewEncoder(base64.StdEncoding, &text)
	compressor := gzip.NewWriter(encoder)
	err := json.NewEncoder(compressor).Encode(last)
	if err == nil {
		err = compressor.Close()
	}
	if err == nil {
		err = encoder.Close()
	}
	if err != nil {
		return fmt.Errorf("encode the last status of PartitionSet %s: %w", set.Name, err)
	}
	set.Annotations = map[string]string{v1alpha1.AnnotationRemembered: text.String()}
	return nil
}

// Remembered returns the status that Remember has stored. It returns nil if the set has no
// annotation, or if its status has been written since its creation.
func Remembered(set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSetStatus, error) {
	text := set.Annotations[v1alpha1.AnnotationRemembered]
	if text == "" || len(set.Status.Partitions) > 0 {
		return nil, nil
	}
	last := &v1alpha1.PartitionSetStatus{}
	decompressor, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding,
		bytes.NewReader([]byte(text))))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(decompressor, rememberedBytesMax)).Decode(last)
	}
	if err != nil {
		return nil, fmt.Errorf("decode annotation %s of PartitionSet %s: %w",
			v1alpha1.AnnotationRemembered, set.Name, err)
	}
	return last, nil
}

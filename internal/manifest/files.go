package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// fileBytesMax is the maximum size of a manifest file, which may contain several objects. The API
// server accepts objects of up to 3 MiB.
const fileBytesMax = 16 << 20

// extensions contains the extensions of the files that `kubectl apply -f` reads in a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// object is one object in a file.
type object struct {
	file    string
	content map[string]any
}

// find returns the manifest files for a path. These are the file itself or, for a directory, its
// sorted manifest files without subdirectories, as for `kubectl apply -f`. A directory without
// manifests is an error, because it is more likely a mistake than a request to delete all topics.
func find(path string) ([]string, error) {
	if path == "" { // from an unset shell variable, for example
		return nil, errors.New("empty manifest path")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := filepath.Join(path, entry.Name())
		if !slices.Contains(extensions, filepath.Ext(name)) ||
			strings.HasPrefix(entry.Name(), ".") {
			continue // temporary files of editors, for example
		}
		// Stat fails for a dangling symbolic link. The link may be replaced soon.
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			continue
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests in directory %s: want *%s", path,
			strings.Join(extensions, ", *"))
	}
	return files, nil
}

// read returns the objects and faults in a file.
func read(file string) (objects []object, faults []error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > fileBytesMax {
		err = fmt.Errorf("file has %d bytes, more than %d", info.Size(), fileBytesMax)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, []error{&Error{File: file, Message: err.Error()}}
	}
	if len(bytes.TrimSpace(content)) == 0 {
		// An editor may have truncated the file temporarily. If an empty file were valid, its topics
		// would be deleted.
		return nil, []error{&Error{File: file, Message: "empty file"}}
	}
	found, faults := Objects(file, content)
	for _, content := range found {
		objects = append(objects, object{file, content})
	}
	return objects, faults
}

// Objects returns the objects in a file's content, of any kind. Each fault is an *Error.
func Objects(file string, content []byte) (objects []map[string]any, faults []error) {
	for _, doc := range split(content) {
		found, err := parse(doc)
		if err != nil {
			faults = append(faults, &Error{File: file, Message: err.Error()})
		}
		objects = append(objects, found...)
	}
	return objects, faults
}

// document is one YAML document in a file.
type document struct {
	content []byte
	line    int // number of lines before the document
}

// split splits a file at its "---" lines. It keeps each document's line number, because the YAML
// parser counts lines from the start of the document.
func split(content []byte) []document {
	var documents []document
	current := document{}
	line := 0
	for text := range bytes.Lines(content) {
		line++
		if rest, separator := bytes.CutPrefix(text, []byte("---")); separator &&
			len(bytes.TrimSpace(rest)) == 0 ||
			bytes.HasPrefix(text, []byte("--- #")) {
			documents = append(documents, current)
			current = document{line: line}
			continue
		}
		current.content = append(current.content, text...)
	}
	return append(documents, current)
}

// parse returns the objects in a document. A document that contains only comments has no objects,
// and a v1 List contains its items. Any other document is one object.
func parse(doc document) ([]map[string]any, error) {
	text, err := yaml.YAMLToJSONStrict(doc.content)
	if err != nil {
		return nil, errors.New(moveLines(err.Error(), doc.line))
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, fmt.Errorf("line %d: %w", doc.line+1, err)
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return items(value, doc.line)
	default:
		return nil, fmt.Errorf("line %d: document is not an object", doc.line+1)
	}
}

// items returns the items in a v1 List, recursively. For any other object it returns the object
// itself. apiVersion and kind are required.
func items(content map[string]any, line int) ([]map[string]any, error) {
	for _, name := range []string{"apiVersion", "kind"} {
		if text, ok := content[name].(string); !ok || text == "" {
			return nil, fmt.Errorf("%s: Required value: missing in the object at line %d",
				name, line+1)
		}
	}
	if content["kind"] != "List" || content["apiVersion"] != "v1" {
		return []map[string]any{content}, nil
	}
	list, _ := content["items"].([]any)
	var all []map[string]any
	for i, item := range list {
		inner, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d]: Invalid value: not an object", i)
		}
		found, err := items(inner, line)
		if err != nil {
			return nil, fmt.Errorf("items[%d].%w", i, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// lineNumber matches line numbers in YAML parser errors.
var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// moveLines adds before, the number of lines before a document, to the line numbers in a YAML
// parser error. It also converts the error to one line.
func moveLines(message string, before int) string {
	message = strings.ReplaceAll(strings.ReplaceAll(message, ":\n  ", ": "), "\n  ", "; ")
	return lineNumber.ReplaceAllStringFunc(message, func(found string) string {
		line, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil {
			return found
		}
		return fmt.Sprintf("line %d", line+before)
	})
}

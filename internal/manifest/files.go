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

// fileBytesMax bounds one manifest file; the API server takes no object above 3 MiB either.
const fileBytesMax = 16 << 20

// extensions are what `kubectl apply -f` takes from a folder.
var extensions = []string{".yaml", ".yml", ".json"}

// object is one object of a file.
type object struct {
	file    string
	content map[string]any
}

// find returns the manifest files of a path: itself, or those of a folder, sorted, as `kubectl
// apply -f` takes them (its subfolders not). A folder without any is an error: it is more likely a
// slip than a wish to delete all topics.
func find(path string) ([]string, error) {
	if path == "" { // as from an unset variable of a shell
		return nil, errors.New("the path of a manifest is empty")
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
			continue // editors keep hidden files beside those they edit
		}
		// a link may lead nowhere for a moment
		if info, err := os.Stat(name); err != nil || info.IsDir() {
			continue
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no manifests in folder %s: want *%s", path,
			strings.Join(extensions, ", *"))
	}
	return files, nil
}

// read returns the objects of a file and its faults.
func read(file string) (objects []object, faults []error) {
	info, err := os.Stat(file)
	if err == nil && info.Size() > fileBytesMax {
		err = fmt.Errorf("the file has %d bytes, at most %d are read", info.Size(), fileBytesMax)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, []error{&Error{File: file, Message: err.Error()}}
	}
	if len(bytes.TrimSpace(content)) == 0 {
		// An editor or a copy may have emptied it a moment ago; to read that as "no topics any
		// more" would delete them.
		return nil, []error{&Error{File: file, Message: "the file is empty"}}
	}
	for _, doc := range split(content) {
		found, err := parse(doc)
		if err != nil {
			faults = append(faults, &Error{File: file, Message: err.Error()})
		}
		for _, content := range found {
			objects = append(objects, object{file, content})
		}
	}
	return objects, faults
}

// document is one YAML document of a file.
type document struct {
	content []byte
	line    int // number of lines before it
}

// split cuts a file at its lines "---". It keeps count of lines: the YAML parser sees one document
// and counts from there.
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

// parse returns a document's objects: none (only comments), one, or the items of a v1 List.
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
		return nil, fmt.Errorf("line %d: the document is no object", doc.line+1)
	}
}

// items returns an object, or what a v1 List holds, Lists within it opened too. Whatever has no
// apiVersion or kind is an error.
func items(content map[string]any, line int) ([]map[string]any, error) {
	for _, name := range []string{"apiVersion", "kind"} {
		if text, ok := content[name].(string); !ok || text == "" {
			return nil, fmt.Errorf("%s: Required value: the object that begins at line %d has none",
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
			return nil, fmt.Errorf("items[%d]: Invalid value: it is no object", i)
		}
		found, err := items(inner, line)
		if err != nil {
			return nil, fmt.Errorf("items[%d].%w", i, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// lineNumber is how the YAML parser names a place.
var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// moveLines adds before to the line numbers in an error of the YAML parser, and puts its several
// lines into one.
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

package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// source is an object in a Strimzi manifest. It records which fields were read, so that the others
// can be reported. The zero value is an object without fields.
type source struct {
	path     string
	content  map[string]any
	read     map[string]bool
	children []*source
}

func newSource(path string, content map[string]any) *source {
	return &source{path: path, content: content, read: map[string]bool{}}
}

// has reports whether a field is present and not null. It does not count as read.
func (s *source) has(field string) bool { return s.content[field] != nil }

// at returns the path of a field.
func (s *source) at(field string) string {
	switch {
	case strings.ContainsAny(field, "./"):
		return s.path + "[" + field + "]"
	case s.path == "":
		return field
	}
	return s.path + "." + field
}

// child returns a field that is an object. Without such a field it returns an empty object, so
// that nested fields can be read without checks.
func (s *source) child(field string) *source {
	content, ok := s.content[field].(map[string]any)
	if !ok {
		return newSource(s.at(field), nil)
	}
	return s.adopt(field, newSource(s.at(field), content))
}

// items returns a field that is a list of objects. Other elements are not read.
func (s *source) items(field string) (all []*source) {
	list, ok := s.content[field].([]any)
	if !ok {
		return nil
	}
	for i, element := range list {
		content, ok := element.(map[string]any)
		if !ok {
			return nil
		}
		all = append(all, newSource(fmt.Sprintf("%s[%d]", s.at(field), i), content))
	}
	for _, item := range all {
		s.adopt(field, item)
	}
	return all
}

func (s *source) adopt(field string, child *source) *source {
	s.read[field] = true
	s.children = append(s.children, child)
	return child
}

// text returns a string, a number or a boolean as text, or "".
func (s *source) text(field string) string {
	text, ok := scalar(s.content[field])
	if ok {
		s.read[field] = true
	}
	return text
}

// flag returns a boolean, or false. Another value counts as not read.
func (s *source) flag(field string) bool {
	text, _ := scalar(s.content[field])
	if text == "true" || text == "false" {
		s.read[field] = true
	}
	return text == "true"
}

// number returns an integer from lowest to highest. Otherwise the field counts as not read.
func (s *source) number(field string, lowest, highest int64) (int64, bool) {
	text, _ := scalar(s.content[field])
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < lowest || n > highest {
		return 0, false
	}
	s.read[field] = true
	return n, true
}

// texts returns a list of strings.
func (s *source) texts(field string) (all []string) {
	list, ok := s.content[field].([]any)
	if !ok {
		return nil
	}
	for _, element := range list {
		text, ok := scalar(element)
		if !ok {
			return nil
		}
		all = append(all, text)
	}
	s.read[field] = true
	return all
}

// decode reads a field with the types of the Kubernetes API. If the field contains anything that
// into does not, the field counts as not read, into is unchanged, and decode reports false.
func (s *source) decode(field string, into any) bool {
	if !s.has(field) {
		return false
	}
	text, err := json.Marshal(s.content[field])
	if err != nil {
		return false
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	decoded := reflect.New(reflect.TypeOf(into).Elem())
	if decoder.Decode(decoded.Interface()) != nil {
		return false
	}
	reflect.ValueOf(into).Elem().Set(decoded.Elem())
	s.read[field] = true
	return true
}

// skip marks fields as read that need no counterpart.
func (s *source) skip(fields ...string) {
	for _, field := range fields {
		s.read[field] = true
	}
}

// unread returns the paths of the fields that were not read, sorted. Empty objects, empty lists and
// null have no effect in Kubernetes manifests.
func (s *source) unread() (paths []string) {
	for _, field := range slices.Sorted(maps.Keys(s.content)) {
		if !s.read[field] && !empty(s.content[field]) {
			paths = append(paths, s.at(field))
		}
	}
	for _, child := range s.children {
		paths = append(paths, child.unread()...)
	}
	slices.Sort(paths)
	return paths
}

func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// scalar returns a string, a number or a boolean as text.
func scalar(value any) (string, bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), true
	}
	return "", false
}

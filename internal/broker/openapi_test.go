package broker

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"heartwood.dev/heartwood/api/report"
)

var updateOpenAPI = flag.Bool("update", false, "write the schemas of docs/use/openapi.yaml")

const (
	openAPIFile = "../../docs/use/openapi.yaml"
	reportDir   = "../../api/report"
)

// openAPITypes are types in package report that have a schema. The types of their fields get
// schemas too.
var openAPITypes = []reflect.Type{
	reflect.TypeFor[report.Partitions](), reflect.TypeFor[report.Segments](),
	reflect.TypeFor[report.Passes](), reflect.TypeFor[report.SegmentsEvent](),
	reflect.TypeFor[report.StepEvent](), reflect.TypeFor[report.ReadyEvent](),
	reflect.TypeFor[report.Keys](), reflect.TypeFor[report.Replicas](),
	reflect.TypeFor[report.CleanRequests](), reflect.TypeFor[report.Aborted](),
	reflect.TypeFor[report.RetainedLogs](), reflect.TypeFor[report.Volumes](),
	reflect.TypeFor[report.Placement](), reflect.TypeFor[report.Transactions](),
	reflect.TypeFor[report.MayStop](), reflect.TypeFor[report.Failure](),
	reflect.TypeFor[report.FailingClients](), reflect.TypeFor[report.Scrubs](),
	reflect.TypeFor[report.ScrubRequests](),
}

// openAPIHead contains the OpenAPI components that are not generated from types.
const openAPIHead = `components:
  securitySchemes:
    token:
      type: http
      scheme: bearer
      description: Token of a ServiceAccount, if the LogCluster is secured (docs/operate/security.md).
  parameters:
    topic: {name: topic, in: path, required: true, schema: {type: string}}
    topics:
      name: topic
      in: query
      description: Selects topics
      schema: {type: array, items: {type: string}}
    broker:
      name: broker
      in: query
      description: Selects a broker of the process
      schema: {type: integer, minimum: 0}
  responses:
    Status:
      description: The state of the process
      content:
        application/json:
          schema:
            type: object
            required: [status]
            properties:
              status: {type: string}
              detail: {type: string}
    Failure:
      description: An error
      content: {application/json: {schema: {$ref: "#/components/schemas/Failure"}}}
  schemas:
`

// fieldDocs returns the comments of the types and fields in package report. The keys are "Type" and
// "Type.Field".
func fieldDocs(t *testing.T) map[string]string {
	t.Helper()
	docs, set := map[string]string{}, token.NewFileSet()
	files, err := filepath.Glob(reportDir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE {
				return true
			}
			for _, spec := range decl.Specs {
				addDocs(docs, decl, spec.(*ast.TypeSpec))
			}
			return false
		})
	}
	return docs
}

func addDocs(docs map[string]string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	docs[spec.Name.Name] = new(doc.Package).Synopsis(decl.Doc.Text())
	for _, field := range structure.Fields.List {
		text := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
		for _, name := range field.Names {
			docs[spec.Name.Name+"."+name.Name] = text
		}
	}
}

// schemas generates the schemas of types.
type schemas struct {
	docs map[string]string
	all  map[string]string // YAML by type name
}

// schemaOf returns a type's schema in one line. It also generates the schemas of named structs that
// the type contains.
func (s *schemas) schemaOf(goType reflect.Type) string {
	switch goType.Kind() {
	case reflect.Pointer:
		return s.schemaOf(goType.Elem())
	case reflect.Bool:
		return "type: boolean"
	case reflect.String:
		return "type: string"
	case reflect.Float64:
		return "type: number"
	case reflect.Int16, reflect.Int32, reflect.Int:
		return "type: integer"
	case reflect.Int64:
		return "type: integer, format: int64"
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "type: string, format: byte, nullable: true"
		}
		return "type: array, items: {" + s.schemaOf(goType.Elem()) + "}"
	case reflect.Map:
		return "type: object, additionalProperties: {" + s.schemaOf(goType.Elem()) + "}"
	case reflect.Struct:
		s.structure(goType)
		return `$ref: "#/components/schemas/` + goType.Name() + `"`
	}
	panic("no schema of " + goType.String())
}

func (s *schemas) structure(goType reflect.Type) {
	if _, made := s.all[goType.Name()]; made {
		return
	}
	s.all[goType.Name()] = ""
	var required []string
	var properties strings.Builder
	for _, field := range reflect.VisibleFields(goType) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || name == "" || name == "-" {
			continue
		}
		if options != "omitempty" {
			required = append(required, name)
		}
		owner := goType
		for _, i := range field.Index[:len(field.Index)-1] {
			owner = owner.Field(i).Type
		}
		schema := s.schemaOf(field.Type)
		if text := s.docs[owner.Name()+"."+field.Name]; text != "" && !strings.HasPrefix(schema, "$") {
			schema += ", description: " + strconv.Quote(text)
		}
		fmt.Fprintf(&properties, "        %s: {%s}\n", name, schema)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "    %s:\n      type: object\n", goType.Name())
	if text := s.docs[goType.Name()]; text != "" {
		fmt.Fprintf(&out, "      description: %s\n", strconv.Quote(text))
	}
	if len(required) > 0 {
		fmt.Fprintf(&out, "      required: [%s]\n", strings.Join(required, ", "))
	}
	s.all[goType.Name()] = out.String() + "      properties:\n" + properties.String()
}

// TestOpenAPISchemasAreThoseOfTheTypes checks that the schemas in the OpenAPI document match the
// types. With -update it writes the schemas.
func TestOpenAPISchemasAreThoseOfTheTypes(t *testing.T) {
	s := schemas{docs: fieldDocs(t), all: map[string]string{}}
	for _, goType := range openAPITypes {
		s.structure(goType)
	}
	var names []string
	for name := range s.all {
		names = append(names, name)
	}
	slices.Sort(names)
	want := openAPIHead
	for _, name := range names {
		want += s.all[name]
	}
	content, err := os.ReadFile(openAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	head, got, found := strings.Cut(string(content), "components:\n")
	if *updateOpenAPI {
		if err := os.WriteFile(openAPIFile, []byte(head+want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !found || "components:\n"+got != want {
		t.Error("docs/use/openapi.yaml is outdated: go test ./internal/broker -run OpenAPI -update")
	}
}

// loadOpenAPI returns the validated OpenAPI document. Its schemas permit no additional properties,
// so a response field that is missing in the document is an error.
func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromFile(openAPIFile)
	if err == nil {
		err = document.Validate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, schema := range document.Components.Schemas {
		schema.Value.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
	}
	return document
}

// TestOpenAPIListsTheEndpointsOfTheManual checks that the document contains the same paths as the
// table in docs/use/http.md.
func TestOpenAPIListsTheEndpointsOfTheManual(t *testing.T) {
	manual, err := os.ReadFile("../../docs/use/http.md")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`/(\{\w+\}|[A-Z]+)`)
	normal := func(method, path string) string {
		return method + " " + variable.ReplaceAllString(path, "/*")
	}
	var want, got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(GET|POST) (/\\S+)` \\|").FindAllStringSubmatch(
		string(manual), -1) {
		if row[2] != "/metrics" && !strings.HasPrefix(row[2], "/debug") {
			want = append(want, normal(row[1], row[2]))
		}
	}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method := range item.Operations() {
			got = append(got, normal(method, path))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the document has\n%s\nthe manual has\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// TestOpenAPIHoldsForResponses validates real responses against the document. They come from a
// broker with records, passes and a tombstone, and include errors.
func TestOpenAPIHoldsForResponses(t *testing.T) {
	c := newCluster(t)
	c.start()
	handler := handlerOf(c.Broker)
	c.sync(1, 1, 2, "monday")
	client := c.client()
	for round := range 3 {
		c.produce(client, fmt.Sprint("round", round), 200)
		c.cleanTickets()
	}
	document := loadOpenAPI(t)
	const segments = "/api/v1/partitions/{topic}/{partition}/segments"
	for path, template := range map[string]string{
		"/healthz": "/healthz", "/readyz": "/readyz",
		"/api/v1/partitions":                               "/api/v1/partitions",
		"/api/v1/partitions/tickets/0/segments?limit=1":    segments,
		"/api/v1/partitions/tickets/1/segments":            segments,
		"/api/v1/partitions/tickets/9/segments":            segments,
		"/api/v1/passes":                                   "/api/v1/passes",
		"/api/v1/passes?steps=true":                        "/api/v1/passes",
		"/api/v1/passes?limit=x":                           "/api/v1/passes",
		"/api/v1/topics":                                   "/api/v1/topics",
		"/api/v1/topics/tickets/keys?key=a2V5LTc&all=true": "/api/v1/topics/{topic}/keys",
		"/api/v1/topics/tickets/keys?key=eA":               "/api/v1/topics/{topic}/keys",
		"/api/v1/topics/tickets/replicas":                  "/api/v1/topics/{topic}/replicas",
		"/api/v1/retained":                                 "/api/v1/retained",
		"/api/v1/placement":                                "/api/v1/placement",
		"/api/v1/transactions":                             "/api/v1/transactions",
		"/api/v1/failing-clients":                          "/api/v1/failing-clients",
		"/api/v1/may-stop/0":                               "/api/v1/may-stop/{broker}",
	} {
		r := get(t, handler, http.MethodGet, path)
		responses := document.Paths.Value(template).Get.Responses
		response := responses.Status(r.Code)
		if response == nil {
			response = responses.Default()
		}
		var value any
		if err := json.Unmarshal(r.Body.Bytes(), &value); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		schema := response.Value.Content.Get("application/json").Schema.Value
		if err := schema.VisitJSON(value); err != nil {
			t.Errorf("%s: status %d: %v", path, r.Code, err)
		}
	}
}

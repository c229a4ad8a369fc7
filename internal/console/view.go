package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/console/kafka"
	"heartwood.dev/heartwood/internal/remote"
)

//go:embed templates
var templateFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// view is the content of a page. The fields above Body are for templates/frame.html.
type view struct {
	Template string // name of the file in templates/, without .html
	Title    string
	Page     string // first segment of the path, for the navigation
	Status   int    // 0: status 200
	Cluster  string
	Brokers  int // number of brokers, including those in Unanswered; 0: unknown
	// Unanswered contains the brokers that have not responded. The page does not contain their data.
	Unanswered []remote.Unanswered
	// Refusing contains the volumes of the brokers that reject records because the volume is almost
	// full.
	Refusing []report.Volume
	Writes   string // topics that the user may clean, for the page header
	Site     bool   // true if the page does not belong to a LogCluster
	Base     string // relative URL of the console's root; "" if the page is there
	Root     string // relative URL from the console's root to the list of LogClusters, or ""
	User     string // name of the user; "" if the console does not authenticate users
	Logout   bool   // true if the user can log out
	Version  string // version of the assets
	Live     string // relative URL of live updates; "" if the page has none
	// Refresh is the number of seconds after which a browser without scripts reloads the page; 0:
	// never.
	Refresh  int
	Location string // relative URL of a redirect; "" for a page
	Fragment bool   // true for a body without the page's frame
	// Refusal is the reason why the user may not use the page's form, or "". Fault is the reason why a
	// request from the form failed.
	Refusal, Fault string
	Body           any
}

var functions = template.FuncMap{
	"bytes": formatBytes[int64], "count": formatCount[int64], "percent": formatPercent,
	"duration": formatDuration, "none": func() string { return none },
	"plural":   plural[int],
	"plural64": plural[int64],
	"query":    query, "share": share,
	"long":   func(key string) bool { return len(key) > keyLineMax },
	"add":    func(a, b int64) int64 { return a + b },
	"int64":  func(n int) int64 { return int64(n) },
	"list":   func(items ...any) []any { return items },
	"title":  func(word string) string { return strings.ToUpper(word[:1]) + word[1:] },
	"result": func(result string) string { return word(nil, result) },
	// functions for the shapes of a block (templates/parts.html)
	"garbagetop":    func(b mapBlock) float64 { return round3(4 + 40*(1-b.Garbage)) },
	"garbageheight": func(b mapBlock) float64 { return round3(40 * b.Garbage) },
	"readwidth":     func(b mapBlock) float64 { return round3(b.Width * b.Read) },
	"middle":        func(b mapBlock) float64 { return round3(b.X + b.Width/2) },
	"lag": func(o kafka.GroupOffset) string {
		lag, ok := o.Lag()
		if !ok {
			return none
		}
		return formatCount(lag)
	},
}

// keyLineMax is the maximum length of a key that a table shows in one line.
const keyLineMax = 40

// share returns the ratio of part to whole in the format of an SVG attribute, such as "12.3%".
func share(part, whole int64) string {
	if whole <= 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 2, 64) + "%"
}

// query returns a relative URL with the path in to. pairs contains the names and values of the
// query parameters.
func query(to string, pairs ...any) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(textOf(pairs[i]), textOf(pairs[i+1]))
	}
	return to + "?" + values.Encode()
}

// templates contains one template for each page, which includes frame.html and parts.html.
var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	common := template.Must(template.New("").Funcs(functions).
		ParseFS(templateFiles, "templates/frame.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	names, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is valid
	}
	for _, name := range names {
		page := strings.TrimSuffix(path.Base(name), ".html")
		if page == "frame" || page == "parts" {
			continue
		}
		all[page] = template.Must(template.Must(common.Clone()).ParseFS(templateFiles, name))
	}
	return all
}

// render writes a page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, v view) {
	if v.Page == "" {
		v.Page = pageOf(r)
	}
	if v.Location != "" {
		redirect(w, v.Location)
		return
	}
	v.Cluster, v.Root, v.Base = c.opts.Cluster, c.opts.Root, upFrom(r)
	v.Writes = c.writesOf(r)
	writePage(w, r, v, c.opts.Logger)
}

// writePage renders a page and writes it. It renders into memory first, so that an error does not
// leave a partial page.
func writePage(w http.ResponseWriter, r *http.Request, v view, logger *slog.Logger) {
	v.Version = assetVersion
	caller := callerOf(r)
	v.User, v.Logout = caller.name, caller.cookie
	v.Fragment = r.URL.Query().Get("fragment") != ""
	name := "frame"
	if v.Fragment {
		name = "main"
	}
	var page bytes.Buffer
	if err := templates[v.Template].ExecuteTemplate(&page, name, v); err != nil {
		logger.Error("failed to render page", "page", v.Template, "error", err)
		refuse(w, http.StatusInternalServerError, "The page could not be rendered; the log of the "+
			"console contains the error.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	_, _ = w.Write(page.Bytes()) // fails only if the client has disconnected
}

// pageOf returns the first segment of the request's path.
func pageOf(r *http.Request) string {
	page, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return page
}

// assetVersion changes whenever the assets change, so that browsers may cache them forever.
var assetVersion = hashAssets()

func hashAssets() string {
	sum := sha256.New()
	for _, name := range []string{"console.css", "console.js"} {
		content, err := assetFiles.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // embedded files can always be read
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// serveAsset serves a file from assets/.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		refuse(w, http.StatusNotFound, "There is no such file.")
		return
	}
	kinds := map[string]string{".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
		".js": "text/javascript; charset=utf-8"}
	w.Header().Set("Content-Type", kinds[path.Ext(name)])
	if r.URL.Query().Get("v") == assetVersion {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

package console

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/embedd/embedd/arrowio/wire"
	"github.com/embedd/embedd/stream"
)

// unnamed lists the Content-Types that say nothing about the body. curl sends the form type by default.
var unnamed = map[string]bool{"": true, "application/octet-stream": true, "application/x-www-form-urlencoded": true}

// negotiate sets the formats of a request from its Content-Type and Accept headers. The defaults are the formats of the
// pipeline. If the body has another format than input.format, the default of the answer is the format of the body.
func negotiate(form *stream.Messages, h http.Header) error {
	content := h.Get("Content-Type")
	media, _, err := mime.ParseMediaType(content)
	if media == "" && err != nil {
		media = content // not "", as without the header
	}
	if f := wire.FormatOf(content); f != "" && f != form.Input {
		form.Input, form.Output = f, f
	} else if f == "" && !unnamed[media] {
		return stream.WithCode(codeMediaType, fmt.Errorf("the Content-Type %q is not a format of messages; want %s",
			content, mediaTypes()))
	}
	accepts := strings.Join(h.Values("Accept"), ",")
	f := accepted(accepts, append([]wire.Format{form.Output}, wire.Formats...)...)
	if f == "" {
		return stream.WithCode(codeNotAcceptable, fmt.Errorf("the header Accept %q names no format of messages; want %s",
			accepts, mediaTypes()))
	}
	form.Output = f
	return nil
}

// mediaTypes lists the formats for errors.
func mediaTypes() string {
	var all []string
	for _, f := range wire.Formats {
		all = append(all, f.ContentType())
	}
	return strings.Join(all, ", ")
}

// accepted returns the format with the highest weight in an Accept header, the first on ties; "" if none is accepted.
func accepted(accept string, formats ...wire.Format) (best wire.Format) {
	most := 0.0
	for _, f := range formats {
		if q := quality(accept, f.ContentType()); q > most {
			best, most = f, q
		}
	}
	return best
}

// quality returns the weight (q) of a media type in an Accept header: the q of the most specific range that matches.
func quality(accept, content string) (q float64) {
	if strings.TrimSpace(accept) == "" {
		return 1
	}
	kind, _, _ := strings.Cut(content, "/")
	closest := -1
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		near := map[string]int{"*/*": 0, kind + "/*": 1, content: 2}
		if at, matches := near[media]; err == nil && matches && at > closest {
			closest, q = at, 1
			if text, given := params["q"]; given {
				q, _ = strconv.ParseFloat(text, 64) // unreadable: not accepted
			}
		}
	}
	return q
}

package browser

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var heapFor = flag.Duration("heap", 0, "measure the heap of an open page for this long, such as 30m")

// fullHistory has the page receive a history of two hours from the start: a daemon needs two hours to fill it, and the
// page grows with it until then. The missing steps are copies of the oldest one.
const fullHistory = `{
	const request = fetch;
	window.fetch = async (url, init) => {
		const answer = await request(url, init);
		if (!answer.ok || !String(url).endsWith('/history')) return answer;
		const full = await answer.json(), missing = 720 - full.time.length;
		const fill = (column, oldest) => [...Array(missing).keys()].map(oldest).concat(column);
		full.time = fill(full.time, (i) => full.time[0] - 10 * (missing - i));
		for (const name in full.series) full.series[name] = fill(full.series[name], () => full.series[name][0]);
		return new Response(JSON.stringify(full));
	};
}`

// TestHeap follows the heap of an open page while events come: with -heap alone. It must be flat once all that the page
// shows is full.
func TestHeap(t *testing.T) {
	if *heapFor == 0 {
		t.Skip("takes as long as -heap says")
	}
	r := start(t, learning)
	r.look("digits", "summary")
	js[any](r, fullHistory)
	r.publish("digits", 0, 8000, false) // as many as are shown from the start
	r.until("a first model", func() bool { return r.live() != "" })
	for range 100 { // likewise
		r.send("features.digits", "bad")
	}
	const turns = 30
	views := []string{"Summary", "Points", "Charts", "Models", "Dead letters"}
	var sizes []float64
	for turn := range turns {
		view := views[turn%len(views)]
		js[any](r, `[...document.querySelectorAll('nav a')].find((a) => a.textContent === '`+view+`').click()`)
		for end := time.Now().Add(*heapFor / turns); time.Now().Before(end); time.Sleep(5 * time.Second) {
			r.publish("digits", turn*50, turn*50+50, false)
			r.send("features.digits", "bad")
		}
		if err := chromedp.Do(r.browser, command(heapprofiler.CollectGarbage, cdp.Empty{})); err != nil {
			t.Fatal(err)
		}
		usage, err := chromedp.Run(r.browser, heapUsage)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, usage.UsedSize)
		t.Logf("turn %2d, %s: %.2f MB", turn, view, usage.UsedSize/1e6)
	}
	third := func(from int) float64 {
		part := slices.Sorted(slices.Values(sizes[from : from+turns/3]))
		return part[len(part)/2]
	}
	second, last := third(turns/3), third(2*turns/3)
	t.Logf("median of the second third %.2f MB, of the last %.2f MB", second/1e6, last/1e6)
	if last > 1.1*second {
		t.Errorf("the heap grew from %.2f to %.2f MB", second/1e6, last/1e6)
	}
}

// TestViewsAreFreed: the views of a pipeline that is no longer looked at are freed. The page is behind a proxy, under a
// prefix.
func TestViewsAreFreed(t *testing.T) {
	r := start(t, learning)
	to, err := url.Parse(r.url())
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/embedd", httputil.NewSingleHostReverseProxy(to)))
	defer proxy.Close()
	defer proxy.CloseClientConnections() // the stream of events
	r.proxy = proxy.URL + "/tools/embedd/"
	r.look("digits", "summary")
	r.shows("waiting for labels")
	r.shows("● connected")
	made, err := chromedp.Run(r.browser, chromedp.Evaluate[int](`(async () => {
		const {Charts} = await import('./charts.mjs'), {Scatter} = await import('./scatter.mjs');
		const choose = {get: () => null, set: () => {}};
		window.views = [];
		for (let i = 0; i < 10; i++) views.push(new WeakRef(new Charts()), new WeakRef(new Scatter(choose)));
		return views.length;
	})()`, chromedp.EvalAwaitPromise))
	if err != nil || made != 20 {
		t.Fatal(made, err)
	}
	r.until("the views are freed", func() bool {
		if err := chromedp.Do(r.browser, command(heapprofiler.CollectGarbage, cdp.Empty{})); err != nil {
			t.Fatal(err)
		}
		return js[int](r, "views.filter((v) => v.deref()).length") == 0
	})
	r.quiet()
}

// heapUsage is the heap of the page.
var heapUsage chromedp.Action[runtime.GetHeapUsageResult] = func(ctx context.Context, t *chromedp.Target) (
	runtime.GetHeapUsageResult, error) {
	return cdp.Call(ctx, t, runtime.GetHeapUsage, cdp.Empty{})
}

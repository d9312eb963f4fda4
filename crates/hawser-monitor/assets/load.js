// Loads the page again where a part of it did not come: browsers give up what they load when the
// machine's addresses change, which is when this page is wanted.

{
  const PAUSE = 1000;
  const again = ({ target }) => {
    if (target.matches?.('script, link[rel=stylesheet]'))
      setTimeout(() => location.reload(), PAUSE);
  };
  // Such errors do not bubble.
  addEventListener('error', again, true);
}

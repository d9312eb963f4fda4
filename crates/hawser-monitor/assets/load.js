// Reloads the page if a part of it did not arrive: browsers give up loading when the machine's
// addresses change, which is when this page is needed.

{
  const PAUSE = 1000;
  const again = ({ target }) => {
    if (target.matches?.('script, link[rel=stylesheet]'))
      setTimeout(() => location.reload(), PAUSE);
  };
  // Such errors do not bubble.
  addEventListener('error', again, true);
}

<?php // must-use plugin of the test bed: the next write of a post or an image is slow, or its process dies, as next-write.json says (once)
// {"before_s": 1.5}  sleep before the row is written     {"after_s": 2}  sleep after it, before the answer
// {"die": "exit"}    end with 200 and an empty body after the row is written, before tags, featured image, meta, sizes
// {"die": "fatal"}   the same with a fatal error: 500            {"die": "kill"}   the same without an answer
function testbed_next_write() {
  $armed = WP_CONTENT_DIR . '/uploads/next-write.json';
  $taken = "$armed." . getmypid();
  if (!@rename($armed, $taken)) return [];      // rename: one request takes it
  $what = json_decode(file_get_contents($taken), true) ?: [];
  unlink($taken);
  return $what;
}
function testbed_arm($hook) {
  return function ($row) use ($hook) {
    $what = testbed_next_write();
    usleep((int) (1e6 * ($what['before_s'] ?? 0)));
    if (!empty($what['after_s']) || !empty($what['die'])) add_action($hook, function () use ($what) {
      usleep((int) (1e6 * ($what['after_s'] ?? 0)));
      switch ($what['die'] ?? '') {
        case 'exit': exit;
        case 'fatal': testbed_no_such_function();
        case 'kill': posix_kill(getmypid(), 9);
      }
    }, 1);
    return $row;
  };
}
add_filter('rest_pre_insert_post', testbed_arm('wp_insert_post'), 20);
add_filter('rest_pre_insert_attachment', testbed_arm('add_attachment'), 20);

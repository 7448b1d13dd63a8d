<?php // must-use plugin of the test bed: the next write of a post is slow, or its process dies, as next-write.json says (once)
// {"before_s": 1.5}  sleep before the row is written     {"after_s": 2}  sleep after it, before the answer
// {"die": true}      end without an answer after the row is written, before tags and meta
function testbed_next_write() {
  $armed = WP_CONTENT_DIR . '/uploads/next-write.json';
  $taken = "$armed." . getmypid();
  if (!@rename($armed, $taken)) return [];      // rename: one request takes it
  $what = json_decode(file_get_contents($taken), true) ?: [];
  unlink($taken);
  return $what;
}
add_filter('rest_pre_insert_post', function ($post) {
  $what = testbed_next_write();
  usleep((int) (1e6 * ($what['before_s'] ?? 0)));
  if (!empty($what['after_s']) || !empty($what['die'])) add_action('wp_insert_post', function () use ($what) {
    usleep((int) (1e6 * ($what['after_s'] ?? 0)));
    if (!empty($what['die'])) exit;
  }, 1);
  return $post;
}, 20);

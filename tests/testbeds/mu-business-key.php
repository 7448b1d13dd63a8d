<?php // must-use plugin: a business key as private meta, visible and filterable in REST; one post per key; expected-version check
// Offered to site owners who may install a plugin: a second create with the same key answers 409 and the id of the first.
add_action('init', function () {
  foreach (['biz_key', 'biz_hash'] as $key)
    register_post_meta('post', $key, ['type' => 'string', 'single' => true, 'show_in_rest' => true,
      'auth_callback' => fn() => current_user_can('edit_posts')]);
});
add_filter('rest_post_query', function ($args, $request) {
  if (($key = $request->get_param('biz_key')) !== null) { $args['meta_key'] = 'biz_key'; $args['meta_value'] = (string) $key; }
  return $args;
}, 10, 2);
add_filter('rest_post_collection_params', function ($params) { $params['biz_key'] = ['type' => 'string']; return $params; });
add_filter('rest_pre_insert_post', function ($post, WP_REST_Request $request) {
  $meta = $request->get_param('meta');
  $key = is_array($meta) ? ($meta['biz_key'] ?? null) : null;
  if (empty($post->ID) && $key !== null) {
    global $wpdb;
    $wpdb->get_var($wpdb->prepare('SELECT GET_LOCK(%s,10)', 'bk' . md5($key)));
    $id = $wpdb->get_var($wpdb->prepare("SELECT post_id FROM $wpdb->postmeta WHERE meta_key='biz_key' AND meta_value=%s LIMIT 1", $key));
    if ($id) return new WP_Error('biz_key_exists', 'exists', ['status' => 409, 'id' => (int) $id]);
    $post->meta_input = ['biz_key' => $key];    // written inside wp_insert_post, before its hook
  }
  $expected = $request->get_header('if_match');
  if (!empty($post->ID) && $expected !== null) {
    $have = get_post_field('post_modified', $post->ID) . '/' . get_post_meta($post->ID, 'biz_hash', true);
    if (trim($expected, '"') !== $have)
      return new WP_Error('stale', 'expected version differs', ['status' => 412, 'have' => $have, 'got' => $expected]);
  }
  return $post;
}, 10, 2);
